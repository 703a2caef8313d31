// The part of tost eval that concerns image models.
#include <iomanip>
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/evaluate.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/ops/device.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

void check_class_names(const ModelInfo& info, const ImageDataset& dataset,
                       const EvalCommand& options) {
  if (info.classes == dataset.classes() || options.run.json) return;
  if (info.classes.size() != dataset.classes().size()) return;  // evaluate() says it
  std::cerr << "warning: the classes of '" << options.data.path
            << "' have other names than those the model was trained on ("
            << dataset.classes().front() << ", ... against " << info.classes.front()
            << ", ...); they are matched by number\n";
}

void print_eval(const nlohmann::json& report) {
  std::cout << std::fixed << std::setprecision(2) << "top1    "
            << 100 * report["top1"].get<double>() << " %\n"
            << "top5    " << 100 * report["top5"].get<double>() << " %\n"
            << std::setprecision(4) << "loss    " << plain_nan(report["loss"].get<double>()) << "\n"
            << "images  " << human_number(report["images"].get<int64_t>()) << " ("
            << report["split"].get<std::string>() << "), " << report["precision"].get<std::string>()
            << ", " << std::setprecision(0) << report["images_per_s"].get<double>() << " a second\n"
            << "model   " << report["checkpoint"].get<std::string>() << "\n";
  if (report.contains("corruption")) {
    std::cout << "damage  " << report["corruption"]["kind"].get<std::string>() << ", strength "
              << report["corruption"]["strength"].get<int64_t>() << "\n";
  }
  if (!report.contains("per_class")) return;
  for (const auto& row : report["per_class"]) {
    print_share(row["class"], row["images"], row["top1"]);
  }
}

}  // namespace

void run_vision_eval(const CLI::App& app, EvalCommand& options) {
  require_data(app);
  set_threads(options.run.threads);
  if (options.corruption.active()) check_corruption(options.corruption);
  if (options.split.empty()) options.split = "test";
  LoadedModel loaded =
      load_model_file(options.checkpoint, options.ema ? Weights::kEma : Weights::kRaw);
  loaded.model->to(device_from_name(options.run.device));
  std::shared_ptr<const ImageDataset> dataset = open_image_dataset(options.data, options.split);
  check_class_names(loaded.info, *dataset, options);
  LoaderConfig config;
  config.batch_size = options.batch == 0 ? 100 : options.batch;
  config.workers = options.workers;
  config.preprocess = loaded.info.preprocess;
  config.corruption = options.corruption;
  ImageLoader loader(dataset, config);

  ProgressLine progress(options.quiet || options.run.json);
  EvalOptions wanted;
  wanted.precision = chosen_precision(
      options.precision, loaded.precision,
      classifier_precisions(options.engine && VisionEngine::supports(*loaded.model)));
  wanted.engine = options.engine;
  wanted.stop = stop_flag();
  wanted.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "images scored");
  };
  const auto result = evaluate(*loaded.model, loader, wanted);
  progress.finish();
  if (!result) {
    std::cerr << "interrupted\n";
    return set_exit_code(kExitInterrupted);
  }
  nlohmann::json report = to_json(*result);
  report["checkpoint"] = loaded.file.string();
  report["data"] = options.data.path;
  report["split"] = options.split;
  report["precision"] = wanted.precision;
  report["model"] = loaded.info.config.name;
  if (options.corruption.active()) {
    report["corruption"] = {{"kind", options.corruption.kind},
                            {"strength", options.corruption.strength}};
  }
  if (options.per_class)
    report["per_class"] = class_rows(result->confusion, loaded.info.classes, "images");
  options.run.json ? print_json(report) : print_eval(report);
}

std::vector<CLI::Option*> add_vision_eval_options(CLI::App& command, EvalCommand& options) {
  std::vector<CLI::Option*> flags{
      add_value(command, "--workers", options.workers, "Loader threads"),
      command.add_option("--corrupt", options.corruption.kind,
                         "Damage the pictures, once they have the model's size: " +
                             join(corruption_kinds(), ", "))};
  flags.push_back(
      add_value(command, "--strength", options.corruption.strength, "of --corrupt, 1 to 5")
          ->needs("--corrupt"));
  for (CLI::Option* flag : flags) flag->group("Image models");
  for (const char* shared : {"--data-format", "--per-class", "--engine"}) {
    flags.push_back(command.get_option(shared));
  }
  return flags;
}

}  // namespace tost
