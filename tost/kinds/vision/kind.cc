// Image classifiers as a row of the table of kinds.
#include "tost/kinds/kind.h"

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/vision/bench.h"
#include "tost/kinds/vision/cost.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/evaluate.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/predict.h"
#include "tost/kinds/vision/presets.h"
#include "tost/kinds/vision/task.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/device.h"
#include "tost/store/quantized_file.h"
#include "tost/store/run_layout.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Pictures of one data split, and the model they are shown to.
class Scorer {
 public:
  Scorer(const fs::path& run, const std::atomic<bool>* stop)
      : config_(make_config(vision_train_form(), read_config_file(run / kConfigFile))),
        loaded_(load_model_file(final_checkpoint(run),
                                config_.evaluate_ema ? Weights::kEma : Weights::kRaw)),
        stop_(stop) {}

  std::optional<EvalResult> score(const std::string& split, const Corruption& corruption) {
    if (dataset_ == nullptr || split != split_) {
      dataset_ = open_image_dataset(data_spec(config_), split);
      split_ = split;
    }
    LoaderConfig loader_config;
    loader_config.batch_size = config_.eval_batch;
    loader_config.workers = 0;
    loader_config.preprocess = loaded_.info.preprocess;
    loader_config.corruption = corruption;
    ImageLoader loader(dataset_, loader_config);
    EvalOptions options;
    options.precision = config_.precision;
    options.stop = stop_;
    return evaluate(*loaded_.model, loader, options);
  }

 private:
  VisionTrainConfig config_;
  LoadedModel loaded_;
  const std::atomic<bool>* stop_;
  std::shared_ptr<const ImageDataset> dataset_;
  std::string split_;
};

// By the model of the run's last checkpoint on the rule's split, and on its damaged pictures
// (seed 0).
std::optional<RunScores> score_pictures(const fs::path& run, const json& rule,
                                        const std::atomic<bool>* stop) {
  RunScores found;
  Scorer scorer(run, stop);
  const auto clean = scorer.score(rule.at("split").get<std::string>(), {});
  if (!clean) return std::nullopt;
  found.scores = {{"top1", clean->top1}, {"top5", clean->top5}, {"loss", clean->loss}};
  const json& corruptions = rule.at("corruptions");
  if (corruptions.is_null()) return found;
  const std::string split = corruptions.at("split").get<std::string>();
  for (const json& kind : corruptions.at("kinds")) {
    std::vector<double>& values = found.corrupted[kind.get<std::string>()];
    for (const json& strength : corruptions.at("strengths")) {
      const auto result = scorer.score(split, {kind.get<std::string>(), strength.get<int64_t>()});
      if (!result) return std::nullopt;
      values.push_back(result->top1);
    }
  }
  return found;
}

constexpr char kOptions[] = "model_options";

// A typing error in model_options would else show in the first run alone, once for every run.
void check_model_options(const nlohmann::json& config) {
  const auto model = config.value("model", std::string("tost_nano_p4"));
  const auto options = config.value(kOptions, nlohmann::json::object());
  if (options.empty()) return;
  try {
    vision_config_from_json(merge(to_json(vision_preset(model)), options));
  } catch (const Error& error) {
    fail_usage("model_options cannot be used: ", error.what());
  }
}

RunKind vision_run_kind() {
  RunKind kind = make_run_kind<VisionTask>("vision", "image model", vision_train_form(),
                                           vision_preset_names(), model_info_from_json);
  kind.check = check_model_options;
  kind.metric = "top1";
  kind.corruptible = true;
  kind.score = score_pictures;
  return kind;
}

OpenedModel open_vision(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_model_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

// Names alone: evaluate() refuses another number of classes.
void check_class_names(const ModelInfo& info, const ImageDataset& dataset,
                       const ScoreRequest& request) {
  const auto& classes = dataset.classes();
  if (info.classes == classes || info.classes.size() != classes.size()) return;
  request.warn(cat("the classes of '", request.data.at("data").get<std::string>(),
                   "' have other names than those the model was trained on (", classes.front(),
                   ", ... against ", info.classes.front(), ", ...); they are matched by number"));
}

LoadedModel open_for(const ModelRequest& request) {
  LoadedModel loaded = load_model_file(request.file, request.weights);
  loaded.model->to(device_from_name(request.device));
  const bool engine = request.engine && VisionEngine::supports(*loaded.model);
  loaded.precision =
      chosen_precision(request.precision, loaded.precision, classifier_precisions(engine));
  return loaded;
}

json score_vision(const ScoreRequest& request) {
  if (request.corruption.active()) check_corruption(request.corruption);
  const LoadedModel loaded = open_for(request);
  const std::string split = request.split.empty() ? "test" : request.split;
  // A path that is only read may be any bytes, those of a configuration may not.
  json settings = request.data;
  const std::string path = settings.at("data");
  settings.erase("data");
  DataSpec spec = data_spec(make_config(vision_train_form(), settings));
  spec.path = path;
  const std::shared_ptr<const ImageDataset> dataset = open_image_dataset(spec, split);
  check_class_names(loaded.info, *dataset, request);
  LoaderConfig config;
  config.batch_size = request.batch == 0 ? 100 : request.batch;
  config.workers = request.workers;
  config.preprocess = loaded.info.preprocess;
  config.corruption = request.corruption;
  ImageLoader loader(dataset, config);
  EvalOptions options;
  options.precision = loaded.precision;
  options.engine = request.engine;
  options.stop = request.stop;
  options.progress = [&](int64_t done, int64_t total) {
    request.progress(done, total, "images scored");
  };
  const auto result = evaluate(*loaded.model, loader, options);
  if (!result) return {};
  json report = to_json(*result);
  report.update({{"checkpoint", loaded.file.string()},
                 {"split", split},
                 {"precision", loaded.precision},
                 {"model", loaded.info.config.name}});
  if (request.corruption.active())
    report["corruption"] = TOST_MEMBERS(request.corruption, kind, strength);
  if (request.per_class)
    report["per_class"] = class_rows(result->confusion, loaded.info.classes, "images");
  return report;
}

PredictReport predict_vision(const PredictRequest& request) {
  const LoadedModel loaded = open_for(request);
  const PredictOptions options{.top_k = request.top,
                               .batch_size = request.batch,
                               .precision = loaded.precision,
                               .engine = request.engine};
  return {loaded.file, predict_images(*loaded.model, loaded.info, request.pictures, options)};
}

json describe_vision(const std::string& name) {
  const VisionConfig config = vision_preset(name);
  const auto model = make_image_classifier(config, WeightInit::kNone);
  json row = TOST_MEMBERS(config, image_size, patch, dim, depth, heads, classes);
  row["name"] = name;
  row["mixer"] = config.architecture == "linear" ? "none" : config.mixer;
  row["parameters"] = parameter_count(*model);
  row["gmac"] = double(vision_multiply_adds(config, config.image_size, config.image_size)) / 1e9;
  return row;
}

}  // namespace

Kind vision_kind() {
  Kind kind;
  kind.name = "vision";
  kind.label = "image";
  kind.runs = {vision_run_kind()};
  kind.table = {.key = "models",
                .title = "model",
                .columns = {{"side", "image_size", 6},
                            {"patch", "patch", 6},
                            {"dim", "dim", 6},
                            {"depth", "depth", 6},
                            {"heads", "heads", 6},
                            {"parameters", "parameters", 14},
                            {"GMAC", "gmac", 10}},
                .note = "",
                .describe = describe_vision};
  kind.open = open_vision;
  kind.score = score_vision;
  kind.data_keys = {"data_seed", "train_size", "test_size", "data_side"};
  kind.predict = predict_vision;
  kind.open_bench = open_bench_vision;
  return kind;
}

}  // namespace tost
