// Pictures to logits at a precision, by the inference engine or by the module itself.
#pragma once

#include <optional>
#include <string>

#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/ops/graphed_call.h"
#include "tost/torch.h"

namespace tost {

class ImageRunner {
 public:
  // `model` is in evaluation mode and outlives the runner. `engine`: through VisionEngine where it
  // supports the model. precision: fp32, bf16 or, by the engine alone, int8; throws a usage Error
  // for other names and for int8 without the engine. `graphs`: see graphs_wanted().
  ImageRunner(ImageClassifier& model, Precision precision, bool engine,
              const std::string& graphs = "auto");

  ImageRunner(const ImageRunner&) = delete;
  ImageRunner& operator=(const ImageRunner&) = delete;

  // images [B, in_channels, Y, X] → logits [B, classes], without gradients; the next call may
  // overwrite them.
  torch::Tensor logits(const torch::Tensor& images);

  bool by_engine() const { return engine_.has_value(); }
  // What is run without the engine.
  GraphedCall& call() { return call_; }

 private:
  ImageClassifier& model_;
  Precision precision_;
  std::optional<VisionEngine> engine_;
  GraphedCall call_;
};

}  // namespace tost
