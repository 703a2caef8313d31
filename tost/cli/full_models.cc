// Opens models with torch for commands of both programs: any mixer, any file, any device.
#include "tost/cli/commands.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/model_commands.h"
#include "tost/engine/language_text.h"
#include "tost/kinds/language/answer_eval.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/nn/module_device.h"
#include "tost/nn/state_dict.h"
#include "tost/store/weights_file.h"
#include "tost/study/torch_bench.h"

namespace tost {
namespace {

OpenedText open_with_torch(const ModelChoice& o) {
  auto loaded = load_language_file(o.path, o.weights());
  choose_tokenizer({.name = o.tokenizer, .data = o.data, .holdout = o.holdout}, loaded.info,
                   loaded.file.string());
  const torch::Device device = device_from_name(o.device);
  if (!o.precision.empty()) {
    loaded.precision = precision_from_name(o.precision, language_precisions(device));
  }
  place_language(loaded.model, loaded.precision, device);
  const auto scope =
      std::make_shared<PrecisionScope>(scope_precision(loaded.precision, device), device);
  return {loaded.model, loaded.info, loaded.file.string(), loaded.precision, scope};
}

// Scores data with tokens and targets (token_task.h); returns no report if interrupted.
std::optional<nlohmann::json> score_answers(TextModel& text_model, const EvalCommand& command,
                                            const LanguageEvalOptions& watched) {
  auto& model = dynamic_cast<LanguageModel&>(text_model);
  const std::string split = command.score.split.empty() ? "test" : command.score.split;
  const TokenTaskData data(command.model.data, split);
  AnswerEvalOptions options{watched};
  options.samples = command.samples;
  options.batch = command.score.batch;
  const auto scores = evaluate_answers(model, data, options);
  if (!scores) return std::nullopt;
  nlohmann::json report = to_json(*scores);
  for (size_t i = 0; i < scores->size(); ++i) {
    const AnswerScores& one = (*scores)[i];
    const double read = double(one.samples) * double(one.length);
    report["groups"][i]["tokens_per_s"] =
        one.seconds > 0 ? nlohmann::json(read / one.seconds) : nlohmann::json();
  }
  report["parameters"] = parameter_count(model);
  report["split"] = split;
  return report;
}

void serve_language(const ModelChoice& o, ServedModel& model, const ServiceLimits& limits,
                    Metrics& metrics) {
  auto loaded = load_language_file(o.path);
  if (loaded.info.tokenizer == nullptr) {
    choose_tokenizer({.name = o.tokenizer}, loaded.info, loaded.file.string());
  }
  const auto precision = o.precision.empty() ? loaded.precision : precision_from_name(o.precision);
  if (!engine_has(loaded.info.config)) {
    fail_data("'", loaded.file.string(), "' has a mixer (", loaded.info.config.mixer,
              ") or an addition to it that the server lacks; `tost generate` runs it.");
  }
  model.language = std::make_unique<LanguageService>(
      ServedText{text_engine(*loaded.model, precision), loaded.info, o.explain}, limits, metrics);
}

void serve_classifier(const ModelChoice& o, ServedModel& model, const ServiceLimits& limits,
                      Metrics&) {
  const auto loaded = std::make_shared<LoadedModel>(load_model_file(o.path));
  const bool engine = VisionEngine::supports(*loaded->model);
  const auto precision =
      chosen_precision(o.precision, loaded->precision, classifier_precisions(engine));
  const auto runner = std::make_shared<ImageRunner>(*loaded->model, precision, engine);
  PictureModel pictures{loaded->info, precision,
                        [loaded, runner](const float* images, int64_t count, float* logits) {
                          runner->logits(images, count, loaded->info.preprocess, logits);
                        }};
  if (o.explain) {
    pictures.explain = [loaded](PictureInput input) {
      return picture_maps(*loaded->model, loaded->info, std::move(input));
    };
  }
  model.pictures = std::make_unique<PictureService>(std::move(pictures), limits.queue);
}

OpenServed find_with_torch(const ModelChoice& choice) {
  const auto kind = model_kind(choice.path);
  if (kind == kLanguageKind) return std::bind_front(serve_language, choice);
  if (kind == "vision") return std::bind_front(serve_classifier, choice);
  fail_usage("'", choice.path, "' holds a ", kind,
             " model; language models and image classifiers are served.");
}

PredictReport predict_with_torch(const PredictRequest& request, const KindFlags& flags) {
  const Kind& kind = kind_named(model_kind(request.file, request.weights));
  if (!kind.predict) {
    fail_usage("'", request.file, "' holds ", with_article(cat(kind.label, " model")),
               "; tost generate continues texts.");
  }
  check_kind(kind, flags);
  return kind.predict(request);
}

}  // namespace

void run_language_eval(const CLI::App& app, EvalCommand& command) {
  run_language_eval(app, command, open_with_torch, score_answers);
}

void add_predict_command(CLI::App& app) {
  add_predict_command(app, predict_with_torch);
}

void add_generate_command(CLI::App& app) {
  add_generate_command(app, open_with_torch);
}

void add_serve_command(CLI::App& app) {
  add_serve_command(app, find_with_torch);
}

void add_bench_model_command(CLI::App& bench) {
  add_bench_model_command(bench, torch_bench());
}

}  // namespace tost
