// tost eval: scores a trained model on a split of a data set.
#include <iomanip>
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/eval/evaluate.h"
#include "tost/eval/model_file.h"

namespace tost {
namespace {

struct Options {
  RunOptions run;
  std::string checkpoint;
  DataSpec data;
  std::string split = "test";
  int64_t batch_size = 100;
  int64_t workers = 1;
  EvalOptions eval;
  bool ema = false;
  bool per_class = false;
  bool quiet = false;
};

void check_class_names(const ModelInfo& info, const ImageDataset& dataset, const Options& options) {
  if (info.classes == dataset.classes() || options.run.json) return;
  if (info.classes.size() != dataset.classes().size()) return;  // evaluate() says it
  std::cerr << "warning: the classes of '" << options.data.path
            << "' have other names than those the model was trained on ("
            << dataset.classes().front() << ", ... against " << info.classes.front()
            << ", ...); they are matched by number\n";
}

nlohmann::json per_class(const EvalResult& result, const std::vector<std::string>& classes) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t k = 0; k < classes.size(); ++k) {
    const auto row = result.confusion[static_cast<int64_t>(k)];
    const int64_t images = row.sum().item<int64_t>();
    const int64_t right = row[static_cast<int64_t>(k)].item<int64_t>();
    rows.push_back(
        {{"class", classes[k]},
         {"images", images},
         {"top1", images > 0 ? nlohmann::json(double(right) / double(images)) : nlohmann::json()}});
  }
  return rows;
}

void print_text(const nlohmann::json& report) {
  std::cout << std::fixed << std::setprecision(2) << "top1    "
            << 100 * report["top1"].get<double>() << " %\n"
            << "top5    " << 100 * report["top5"].get<double>() << " %\n"
            << std::setprecision(4) << "loss    " << report["loss"].get<double>() << "\n"
            << "images  " << human_number(report["images"].get<int64_t>()) << " ("
            << report["split"].get<std::string>() << "), " << std::setprecision(0)
            << report["images_per_s"].get<double>() << " a second\n"
            << "model   " << report["checkpoint"].get<std::string>() << "\n";
  if (!report.contains("per_class")) return;
  for (const auto& row : report["per_class"]) {
    std::cout << "  " << std::left << std::setw(24) << row["class"].get<std::string>() << std::right
              << std::setw(8) << row["images"].get<int64_t>();
    if (row["top1"].is_number()) {
      std::cout << std::setw(9) << std::setprecision(2) << 100 * row["top1"].get<double>() << " %";
    }
    std::cout << "\n";
  }
}

void run_eval(Options& options) {
  set_threads(options.run.threads);
  LoadedModel loaded =
      load_model_file(options.checkpoint, options.ema ? Weights::kEma : Weights::kRaw);
  std::shared_ptr<const ImageDataset> dataset = open_image_dataset(options.data, options.split);
  check_class_names(loaded.info, *dataset, options);
  LoaderConfig config;
  config.batch_size = options.batch_size;
  config.workers = options.workers;
  config.preprocess = loaded.info.preprocess;
  ImageLoader loader(dataset, config);

  ProgressLine progress(options.quiet || options.run.json);
  options.eval.stop = stop_flag();
  options.eval.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "images scored");
  };
  const auto result = evaluate(*loaded.model, loader, options.eval);
  progress.finish();
  if (!result) {
    std::cerr << "interrupted\n";
    return set_exit_code(kExitInterrupted);
  }
  nlohmann::json report = to_json(*result);
  report["checkpoint"] = loaded.file.string();
  report["data"] = options.data.path;
  report["split"] = options.split;
  report["model"] = loaded.info.config.name;
  if (options.per_class) report["per_class"] = per_class(*result, loaded.info.classes);
  options.run.json ? print_json(report) : print_text(report);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Score a trained model on a data set");
  auto options = std::make_shared<Options>();
  command
      ->add_option("checkpoint", options->checkpoint,
                   "Run folder, checkpoint folder or .safetensors file")
      ->required();
  add_data_options(*command, options->data, true);
  command->add_option("--split", options->split, "train, validation or test")
      ->capture_default_str();
  command->add_option("--batch", options->batch_size, "Images at a time")->capture_default_str();
  command->add_option("--workers", options->workers, "Loader threads")->capture_default_str();
  command->add_option("--precision", options->eval.precision, "fp32 or bf16")
      ->capture_default_str();
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  command->add_flag("--per-class", options->per_class, "Accuracy of each class as well");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command, "  tost eval run --data fashion-mnist");
  command->callback([options] { run_eval(*options); });
}

}  // namespace tost
