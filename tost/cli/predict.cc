// tost predict: labels and probabilities for image files and texts.
#include "tost/kinds/vision/predict.h"

#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/kinds/sequence/predict.h"
#include "tost/kinds/vision/engine.h"
#include "tost/ops/device.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

struct PredictFlags {
  RunOptions run;
  std::string checkpoint;
  std::vector<std::string> images, texts, text_files;
  std::string second;
  PredictOptions predict;
  std::string precision;  // "": the file's
  bool ema = false;
};

nlohmann::json to_json(const std::vector<Prediction>& predictions) {
  nlohmann::json list = nlohmann::json::array();
  for (const Prediction& prediction : predictions) {
    nlohmann::json top = nlohmann::json::array();
    for (const RankedClass& ranked : prediction.top) top.push_back(to_json(ranked));
    list.push_back({{"path", prediction.path}, {"top", top}});
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

void print(const PredictFlags& options, const std::filesystem::path& file,
           const std::vector<Prediction>& predictions) {
  if (options.run.json) {
    print_json({{"checkpoint", file.string()}, {"predictions", to_json(predictions)}});
  } else {
    print_predict(predictions);
  }
}

// The settings with the precision that was asked for, else the file's.
PredictOptions settled(const PredictFlags& options, Precision stored, bool engine) {
  PredictOptions predict = options.predict;
  predict.precision = chosen_precision(options.precision, stored, classifier_precisions(engine));
  return predict;
}

void predict_pictures(const PredictFlags& options, Weights weights) {
  LoadedModel loaded = load_model_file(options.checkpoint, weights);
  loaded.model->to(device_from_name(options.run.device));
  const bool engine = options.predict.engine && VisionEngine::supports(*loaded.model);
  print(options, loaded.file,
        predict_images(*loaded.model, loaded.info, options.images,
                       settled(options, loaded.precision, engine)));
}

constexpr char kReads[] =
    "sequence models read --text or --text-file; pixel models are scored by tost eval.";

void predict_sequences(const PredictFlags& options, Weights weights) {
  if (options.texts.empty() && options.text_files.empty())
    fail_usage("No text was given; ", kReads);
  constexpr int64_t kMaxTextBytes = int64_t{64} << 20;
  const LoadedSequence loaded = load_sequence_file(options.checkpoint, weights);
  loaded.model->to(device_from_name(options.run.device));
  std::vector<SequenceText> texts;
  std::vector<std::string> names;
  for (const std::string& text : options.texts) {
    texts.push_back({text, options.second});
    names.push_back(text);
  }
  for (const std::string& path : options.text_files) {
    texts.push_back({read_file(path, kMaxTextBytes), options.second});
    names.push_back(path);
  }
  std::vector<Prediction> predictions = predict_texts(
      *loaded.model, loaded.info, texts, settled(options, loaded.precision, /*engine=*/false));
  for (size_t i = 0; i < predictions.size(); ++i) predictions[i].path = names[i];
  print(options, loaded.file, predictions);
}

[[noreturn]] void refuse_language(const PredictFlags& options, Weights) {
  fail_usage("'", options.checkpoint, "' holds a language model; tost generate continues texts.");
}

void refuse_pictures(const PredictFlags& options) {
  if (!options.images.empty()) fail_usage("Pictures were given; ", kReads);
}

struct PredictKind {
  const char* kind;
  void (*check)(const PredictFlags&);  // before the flags of other kinds are refused
  void (*run)(const PredictFlags&, Weights);
};
constexpr PredictKind kKinds[] = {{"vision", [](const PredictFlags&) {}, predict_pictures},
                                  {"language", [](const PredictFlags&) {}, refuse_language},
                                  {"sequence", refuse_pictures, predict_sequences}};

void run_predict(const KindFlags& flags, const PredictFlags& options) {
  set_threads(options.run.threads);
  const Weights weights = options.ema ? Weights::kEma : Weights::kRaw;
  const Kind& kind = kind_named(model_kind(options.checkpoint, weights));
  const PredictKind& row = row_of_kind(kKinds, kind);
  row.check(options);
  check_kind(kind, flags);
  row.run(options, weights);
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("predict", "Label images or texts with a trained model");
  auto options = std::make_shared<PredictFlags>();
  add_model_argument(*command, "checkpoint", options->checkpoint);
  auto flags = std::make_shared<KindFlags>();
  (*flags)["vision"] = {
      command->add_option("images", options->images, "JPEG or PNG files"),
      add_value(*command, "--batch", options->predict.batch_size, "Images at a time")};
  // Without allow_extra_args a text in brackets is one text, not a list.
  (*flags)["sequence"] = {
      command
          ->add_option("--text", options->texts,
                       "A text or ListOps expression for a sequence model; may be repeated")
          ->take_all()
          ->expected(1)
          ->allow_extra_args(false),
      command->add_option("--text-file", options->text_files, "The same in a file")
          ->take_all()
          ->expected(1)
          ->allow_extra_args(false),
      command->add_option("--second", options->second,
                          "The other document, for a model of pairs of them")};
  command->add_flag("--engine,!--no-engine", options->predict.engine,
                    "Image models: through the inference engine, or layer by layer");
  add_value(*command, "--top", options->predict.top_k, "Classes shown for each image");
  command->add_option("--precision", options->precision,
                      "fp32 or bf16, of image models int8 (default: the file's)");
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost predict run photo.jpg other.png --top 3\n"
              "  tost predict run --text \"[MAX 2 [MIN 8 5 ] 3 ]\"");
  command->callback([flags, options] { run_predict(*flags, *options); });
}

}  // namespace tost
