// Image classification without autograd, at the speed of the matrix units: weights laid out once,
// tiles of tokens carried through a whole block while they are in cache.
//
// Where there are at least as many images as threads, each thread carries its own images through
// all blocks; images that are left over, and small batches, are spread over the threads token by
// token.
#pragma once

#include <memory>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

class VisionEngine {
 public:
  // Whether an engine can stand in for this model: a vision transformer with float32 weights on the
  // CPU and at least one class block. tssa and none run in the engine itself; other mixers are
  // called as modules between its phases.
  static bool supports(const ImageClassifier& model);

  // Copies the weights, so that later changes of the model do not reach the engine (a mixer other
  // than tssa and none is shared). precision: fp32, bf16 or int8; what the CPU lacks is computed in
  // float32 on the same rounded weights and tokens. Throws a usage Error for others and for
  // models it does not support, a data Error naming the tensor where weights that are not finite
  // would become integers.
  VisionEngine(const ImageClassifier& model, Precision precision);
  ~VisionEngine();
  VisionEngine(const VisionEngine&) = delete;
  VisionEngine& operator=(const VisionEngine&) = delete;

  // images [B, in_channels, Y, X] floating → logits [B, classes] float32: those of the model in
  // evaluation mode, fp32 within 1e-4 of the largest logit, bf16 as close as autocast, int8 as near
  // as 8 bits allow. Threads are those of torch. After the first call with a shape nothing is
  // allocated but the result. An image gives the same bits at the same place of a batch, whatever
  // else is in it, as long as batch size and threads are the same. Throws a data Error where the
  // model does. Not for use by several threads at once.
  torch::Tensor forward(const torch::Tensor& images);

  Precision precision() const { return precision_; }

 private:
  class Run;

  Precision precision_;
  std::unique_ptr<Run> run_;
};

}  // namespace tost
