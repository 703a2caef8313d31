#include "tost/kinds/vision/image_runner.h"

#include "tost/base/error.h"
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

}  // namespace tost
