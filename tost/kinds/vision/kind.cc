// Makes image classifiers a row of the table of kinds.
#include "tost/kinds/kind.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/explain_report.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/task.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/device.h"
#include "tost/store/weights_file.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kOptions[] = "model_options";

// Checks model_options, so that an error is found before the first run.
void check_model_options(const nlohmann::json& config) {
  const auto model = config.value("model", std::string("tost_nano_p4"));
  const auto options = config.value(kOptions, nlohmann::json::object());
  if (!options.empty()) with_model_options(vision_preset(model), options);
}

RunKind vision_run_kind() {
  RunKind kind = make_run_kind<VisionTask>("vision", "image model", vision_train_form(),
                                           vision_preset_names(), model_info_from_json);
  kind.check = check_model_options;
  kind.metric = "top1";
  kind.corruptible = true;
  kind.scored = true;
  return kind;
}

OpenedModel open_vision(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_model_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

LoadedModel open_for(const ModelRequest& request, const fs::path& file) {
  LoadedModel loaded = load_model_file(file, request.weights);
  loaded.model->to(device_from_name(request.device));
  const bool engine = request.engine && VisionEngine::supports(*loaded.model);
  loaded.precision =
      chosen_precision(request.precision, loaded.precision, classifier_precisions(engine));
  return loaded;
}

json score_vision(const ScoreRequest& request) {
  const LoadedModel loaded = open_for(
      request, request.as_trained ? final_checkpoint(request.file) : fs::path(request.file));
  // Allows paths with bytes that are not UTF-8, because these are only read and not stored.
  json settings = request.data;
  const std::string path = settings.at("data");
  settings.erase("data");
  DataSpec spec = data_spec(make_config(vision_train_form(), settings));
  spec.path = path;
  ImageRunner runner(*loaded.model, loaded.precision, request.engine);
  json report = score_pictures(loaded.info, spec, request,
                               [&](const float* images, int64_t count, float* to) {
                                 runner.logits(images, count, loaded.info.preprocess, to);
                               });
  if (report.is_null()) return report;
  report.update({{"checkpoint", loaded.file.string()}, {"precision", loaded.precision}});
  return report;
}

PredictReport predict_vision(const PredictRequest& request) {
  const LoadedModel loaded = open_for(request, request.file);
  const PredictOptions options{.top_k = request.top,
                               .batch_size = request.batch,
                               .precision = loaded.precision,
                               .engine = request.engine};
  return {loaded.file, predict_images(*loaded.model, loaded.info, request.pictures, options)};
}

// The data of the statistics: those of the request, else the run's training data; nothing if
// neither is known.
std::optional<DataSpec> explained_data(const ExplainRequest& request, const fs::path& file) {
  const auto config = run_config(vision_train_form(), file);
  // Reads the run's data with the run's settings, such as the side of shapes and the held-out
  // share.
  if (!request.data.empty() && (!config || !same_path(config->data, request.data))) {
    return DataSpec{.path = request.data, .format = request.data_format};
  }
  if (!config) return std::nullopt;
  DataSpec spec = data_spec(*config);
  if (request.data_format != "auto") spec.format = request.data_format;
  return spec;
}

void open_explained(const ExplainRequest& request, const DataSpec& spec,
                    VisionExplainOptions& options) {
  const auto splits = image_dataset_splits(spec);
  const auto has = [&](const char* split) {
    return std::ranges::find(splits, split) != splits.end();
  };
  std::string held = request.split == "val" ? "validation" : request.split;
  for (const char* split : {"validation", "test"}) {
    if (held.empty() && has(split)) held = split;
  }
  if (held != "train" && has("train")) options.train = open_image_dataset(spec, "train");
  if (!held.empty()) options.held = open_image_dataset(spec, held);
  options.held_split = held;
  options.data = spec.path;
}

json explain_pictures(const ExplainRequest& request) {
  const LoadedModel loaded = load_model_file(request.file, request.weights);
  loaded.model->to(device_from_name(request.device));
  VisionExplainOptions options{{request}, request.inputs};
  const auto spec = explained_data(request, loaded.file);
  options.no_data =
      open_known_data(request, spec.has_value(), [&] { open_explained(request, *spec, options); });
  if (!options.no_data.empty()) options.no_data.front() = 'T';  // "the ..."
  const auto report = explain_vision(loaded, options);
  return report ? to_json(*report) : json();
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
  kind.explain = explain_pictures;
  kind.open_bench = open_bench_vision;
  return kind;
}

}  // namespace tost
