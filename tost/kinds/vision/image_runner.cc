#include "tost/kinds/vision/image_runner.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/nn/metrics.h"
#include "tost/nn/module_device.h"

namespace tost {

ImageRunner::ImageRunner(ImageClassifier& model, Precision precision, bool engine)
    : model_(model), precision_(precision) {
  if (engine && VisionEngine::supports(model)) {
    engine_.emplace(model, precision);
  } else if (facts_of(precision).packing && !facts_of(precision).modules) {
    fail_usage(precision, " needs the inference engine, which ",
               !device_of(model).is_cpu() ? "runs on the CPU"
               : engine                   ? "does not run model '" + model.config().name + "'"
                                          : "is switched off",
               "; use fp32 or bf16.");
  } else {
    const PrecisionScope known(precision);
  }
}

torch::Tensor ImageRunner::logits(const torch::Tensor& images) {
  if (engine_) return engine_->forward(images);
  const torch::InferenceMode no_grad;
  const PrecisionScope scope(precision_, device_of(model_));
  return model_.forward(images);
}

void ImageRunner::logits(const float* images, int64_t count, const Preprocess& p, float* to) {
  const torch::InferenceMode no_grad;
  const auto found =
      logits(torch::from_blob(const_cast<float*>(images), {count, p.channels, p.size, p.size}));
  torch::from_blob(to, found.sizes()).copy_(found);
}

std::vector<Prediction> predict_images(ImageClassifier& model, const ModelInfo& info,
                                       const std::vector<std::string>& paths,
                                       const PredictOptions& options) {
  ImageRunner runner(model, options.precision, options.engine);
  return predict_pictures(info, paths, options.batch_size, options.top_k,
                          [&](const float* images, int64_t count, float* to) {
                            runner.logits(images, count, info.preprocess, to);
                          });
}

std::optional<ClassScores> evaluate(ImageClassifier& model, ImageLoader& loader,
                                    const EvalOptions& options) {
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(model);
  ImageRunner runner(model, options.precision, /*engine=*/false);
  ClassScores scores(model.config().classes);
  bool begun = false, stopped = false;
  const auto next = [&] {
    return read_watched(options.read_guard, [&loader, first = !std::exchange(begun, true)] {
      if (first) loader.start_epoch(0);
      return loader.next();
    });
  };
  while (const std::optional<Batch> batch = next()) {
    add_scores(scores, runner.logits(batch->images), batch->labels);
    stopped = options.stop && options.stop->load();
    if (stopped) break;
  }
  if (!add_up(options.group, scores, stopped)) return std::nullopt;
  return scores;
}

}  // namespace tost
