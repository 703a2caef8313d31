// Pictures to logits at a precision, by the inference engine or by the module itself.
#pragma once

#include <optional>

#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

class ImageRunner {
 public:
  // `model` is in evaluation mode and outlives the runner. `engine`: through VisionEngine where it
  // supports the model. precision: fp32, bf16 or, by the engine alone, int8; throws a usage Error
  // for other names and for int8 without the engine.
  ImageRunner(ImageClassifier& model, Precision precision, bool engine);

  ImageRunner(const ImageRunner&) = delete;
  ImageRunner& operator=(const ImageRunner&) = delete;

  // images [B, in_channels, Y, X] → logits [B, classes], without gradients.
  torch::Tensor logits(const torch::Tensor& images);

  bool by_engine() const { return engine_.has_value(); }

 private:
  ImageClassifier& model_;
  Precision precision_;
  std::optional<VisionEngine> engine_;
};

}  // namespace tost
