#include "tost/kinds/vision/kind.h"

#include "tost/kinds/vision/bench.h"
#include "tost/kinds/vision/cost.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/evaluate.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/onnx.h"
#include "tost/kinds/vision/presets.h"
#include "tost/kinds/vision/run.h"
#include "tost/nn/state_dict.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

using nlohmann::json;

OpenedModel open_vision(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_model_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

json score_vision(const ScoreRequest& request) {
  const LoadedModel loaded = load_model_file(request.file, request.weights);
  LoaderConfig config;
  config.batch_size = 100;
  config.preprocess = loaded.info.preprocess;
  ImageLoader loader(
      open_image_dataset(request.data, request.split.empty() ? "test" : request.split), config);
  EvalOptions options;
  options.engine = true;
  options.precision = chosen_precision(
      "", loaded.precision, classifier_precisions(VisionEngine::supports(*loaded.model)));
  options.stop = request.stop;
  options.progress = [&](int64_t done, int64_t total) {
    request.progress(done, total, "images scored");
  };
  const auto result = evaluate(*loaded.model, loader, options);
  if (!result) return {};
  return {{"precision", options.precision},
          {"top1", result->top1},
          {"loss", result->loss},
          {"images", result->images},
          {"per_second", result->images_per_s}};
}

json describe_vision(const std::string& name) {
  const VisionConfig config = vision_preset(name);
  const auto model = make_image_classifier(config, WeightInit::kNone);
  return {{"name", name},
          {"mixer", config.architecture == "linear" ? "none" : config.mixer},
          {"image_size", config.image_size},
          {"patch", config.patch},
          {"dim", config.dim},
          {"depth", config.depth},
          {"heads", config.heads},
          {"classes", config.classes},
          {"parameters", parameter_count(*model)},
          {"gmac",
           static_cast<double>(vision_multiply_adds(config, config.image_size, config.image_size)) /
               1e9}};
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
  kind.onnx = [](torch::nn::Module& model, bool memberships) {
    return vision_onnx(dynamic_cast<ImageClassifier&>(model), memberships);
  };
  kind.open_bench = open_bench_vision;
  return kind;
}

}  // namespace tost
