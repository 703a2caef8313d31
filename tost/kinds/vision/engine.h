// Runs image classifiers of torch by the engine (engine/vision_engine.h), through views of their
// tensors.
#pragma once

#include <memory>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

class PictureEngine;

// Copies the weights, so that later changes of the model do not reach the engine; a mixer that the
// engine lacks is shared, and called as a module. Throws a usage Error for models that
// VisionEngine does not support, else as PictureEngine.
std::unique_ptr<PictureEngine> picture_engine(const ImageClassifier& model, Precision precision);

class VisionEngine {
 public:
  // Whether an engine can stand in for this model: a vision transformer with float32 weights on the
  // CPU.
  static bool supports(const ImageClassifier& model);

  VisionEngine(const ImageClassifier& model, Precision precision);
  ~VisionEngine();
  VisionEngine(const VisionEngine&) = delete;
  VisionEngine& operator=(const VisionEngine&) = delete;

  // images [B, in_channels, Y, X] floating → logits [B, classes] float32: those of the model in
  // evaluation mode, fp32 within 1e-4 of the largest logit, bf16 as close as autocast, int8 as near
  // as 8 bits allow. Throws a data Error where the model does; else as PictureEngine::forward().
  torch::Tensor forward(const torch::Tensor& images);

 private:
  const VisionConfig config_;
  std::unique_ptr<PictureEngine> engine_;
};

}  // namespace tost
