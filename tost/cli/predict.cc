// tost predict: prints labels and probabilities for image files and texts.
#include <iomanip>
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/program.h"

namespace tost {
namespace {

struct PredictFlags {
  RunOptions run;
  PredictRequest request;
  bool ema = false;
};

nlohmann::json to_json(const std::vector<Prediction>& predictions) {
  nlohmann::json list = nlohmann::json::array();
  for (const Prediction& prediction : predictions) {
    list.push_back({{"path", prediction.path}, {"top", prediction.top}});
  }
  return list;
}

void print_predict(const std::vector<Prediction>& predictions) {
  for (const Prediction& prediction : predictions) {
    std::cout << prediction.path << "\n";
    for (const RankedClass& ranked : prediction.top) {
      std::cout << "  " << std::fixed << std::setprecision(1) << std::setw(5)
                << plain_nan(100 * ranked.probability) << " %  " << ranked.name << "\n";
    }
  }
}

void run_predict(Predict predict, const KindFlags& flags, PredictFlags& options) {
  set_threads(options.run.threads);
  options.request.weights = options.ema ? Weights::kEma : Weights::kRaw;
  options.request.device = options.run.device;
  const PredictReport report = predict(options.request, flags);
  if (!options.run.json) return print_predict(report.predictions);
  print_json({{"checkpoint", report.file.string()}, {"predictions", to_json(report.predictions)}});
}

}  // namespace

void add_predict_command(CLI::App& app, Predict predict) {
  CLI::App* command = app.add_subcommand("predict", "Label images or texts with a trained model");
  auto options = std::make_shared<PredictFlags>();
  PredictRequest& request = options->request;
  add_model_argument(*command, "checkpoint", request.file);
  // Makes pictures optional, because each kind of model checks that it got input.
  command->add_option("images", request.pictures, "JPEG or PNG files");
  auto flags = std::make_shared<KindFlags>();
  (*flags)["vision"] = {add_value(*command, "--batch", request.batch, "Images at a time")};
  // Disables allow_extra_args, so that a text in brackets is one text and not a list.
  (*flags)["sequence"] = {
      command
          ->add_option("--text", request.texts,
                       "A text or ListOps expression for a sequence model; may be repeated")
          ->take_all()
          ->expected(1)
          ->allow_extra_args(false),
      command->add_option("--text-file", request.text_files, "The same in a file")
          ->take_all()
          ->expected(1)
          ->allow_extra_args(false),
      command->add_option("--second", request.second,
                          "The other document, for a model of pairs of them")};
  command->add_flag("--engine,!--no-engine", request.engine,
                    "Image models: through the inference engine, or layer by layer");
  add_value(*command, "--top", request.top, "Classes shown for each image");
  command->add_option("--precision", request.precision,
                      "fp32 or bf16, of image models int8 (default: the file's)");
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost predict run photo.jpg other.png --top 3\n"
              "  tost predict run --text \"[MAX 2 [MIN 8 5 ] 3 ]\"");
  command->callback([predict, flags, options] { run_predict(predict, *flags, *options); });
}

}  // namespace tost
