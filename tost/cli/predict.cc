// tost predict: labels and probabilities for image files.
#include "tost/eval/predict.h"

#include <iomanip>
#include <iostream>

#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"

namespace tost {
namespace {

struct Options {
  RunOptions run;
  std::string checkpoint;
  std::vector<std::string> images;
  PredictOptions predict;
  bool ema = false;
};

nlohmann::json to_json(const std::vector<Prediction>& predictions) {
  nlohmann::json list = nlohmann::json::array();
  for (const Prediction& prediction : predictions) {
    nlohmann::json top = nlohmann::json::array();
    for (const RankedClass& ranked : prediction.top) {
      top.push_back(
          {{"label", ranked.label}, {"class", ranked.name}, {"probability", ranked.probability}});
    }
    list.push_back({{"path", prediction.path}, {"top", top}});
  }
  return list;
}

void print_text(const std::vector<Prediction>& predictions) {
  for (const Prediction& prediction : predictions) {
    std::cout << prediction.path << "\n";
    for (const RankedClass& ranked : prediction.top) {
      std::cout << "  " << std::fixed << std::setprecision(1) << std::setw(5)
                << 100 * ranked.probability << " %  " << ranked.name << "\n";
    }
  }
}

void run_predict(const Options& options) {
  set_threads(options.run.threads);
  LoadedModel loaded =
      load_model_file(options.checkpoint, options.ema ? Weights::kEma : Weights::kRaw);
  const auto predictions =
      predict_images(*loaded.model, loaded.info, options.images, options.predict);
  if (options.run.json) {
    print_json({{"checkpoint", loaded.file.string()}, {"predictions", to_json(predictions)}});
  } else {
    print_text(predictions);
  }
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("predict", "Label images with a trained model");
  auto options = std::make_shared<Options>();
  command
      ->add_option("checkpoint", options->checkpoint,
                   "Run folder, checkpoint folder, or .safetensors, .pth or .pt file")
      ->required();
  command->add_option("images", options->images, "JPEG or PNG files")->required();
  command->add_option("--top", options->predict.top_k, "Classes shown for each image")
      ->capture_default_str();
  command->add_option("--batch", options->predict.batch_size, "Images at a time")
      ->capture_default_str();
  command->add_option("--precision", options->predict.precision, "fp32 or bf16")
      ->capture_default_str();
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  add_run_options(*command, options->run);
  add_example(*command, "  tost predict run photo.jpg other.png --top 3");
  command->callback([options] { run_predict(*options); });
}

}  // namespace tost
