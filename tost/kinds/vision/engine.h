// The inference engine of image classifiers, without autograd: weights are laid out once, and tiles
// of tokens pass through a whole block while they are in cache.
//
// If there are at least as many images as threads, each thread runs separate images through all
// blocks. Threads divide the tokens of remaining images and of small batches.
#pragma once

#include <memory>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

class VisionEngine {
 public:
  // Whether an engine supports the model: a vision transformer with float32 weights on the CPU and
  // at least one class block. The engine has the mixers tssa and none; other mixers run as modules
  // between its phases.
  static bool supports(const ImageClassifier& model);

  // Copies the weights, so that later changes of the model do not reach the engine; shares mixers
  // other than tssa and none. The precision is fp32, bf16 or int8; products that the CPU lacks are
  // computed in float32 on the same rounded values. Throws a usage Error for another precision or
  // an unsupported model, and a data Error naming a tensor to be quantised that is not finite.
  VisionEngine(const ImageClassifier& model, Precision precision);
  ~VisionEngine();
  VisionEngine(const VisionEngine&) = delete;
  VisionEngine& operator=(const VisionEngine&) = delete;

  // Maps images [B, in_channels, Y, X] to logits [B, classes] float32 of the model in evaluation
  // mode: within 1e-4 of the largest logit for fp32, and as close as autocast for bf16. Uses
  // torch's threads. After the first call with a shape, allocates only the result. An image gives
  // the same bits at the same position of a batch, for the same batch size and number of threads.
  // Throws the data Errors of the model. Only one thread at a time may use the engine.
  torch::Tensor forward(const torch::Tensor& images);

  Precision precision() const { return precision_; }

 private:
  class Run;

  Precision precision_;
  std::unique_ptr<Run> run_;
};

}  // namespace tost
