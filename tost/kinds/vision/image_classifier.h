// The interface of all image classifiers: images in, logits out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/kinds/vision/config.h"
#include "tost/nn/block.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// Intermediate results of a forward pass; parts that a model or mixer does not have stay empty or
// undefined. Tensors are not detached: run under NoGradGuard to look, without it to differentiate.
// Patch tokens are row-major over rows x columns (N of them); the R registers of a model that has
// them follow the patches in M = N + R tokens.
struct VisionTrace {
  int64_t rows = 0, columns = 0;
  int64_t registers = 0;                       // R
  torch::Tensor stem_output;                   // patch tokens with position [B, N, C]
  std::vector<BlockTrace> blocks;              // of M tokens
  std::vector<torch::Tensor> class_attention;  // one a class block: class token over itself and
                                               // the patches [B, H, 1 + N]
};

class ImageClassifier : public torch::nn::Module {
 public:
  explicit ImageClassifier(VisionConfig config) : config_(std::move(config)) {}

  // images [B, in_channels, Y, X], floating → logits [B, classes] on the model's device, where
  // images on the CPU are moved. In training and evaluation alike
  // the logits come once (the official code, made for distillation, returns them twice in
  // training). Throws a data Error when the images do not fit the model.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  // The same logits, and the intermediate results. Replaces the content of `trace`.
  virtual torch::Tensor forward_traced(const torch::Tensor& images, VisionTrace& trace) = 0;

  const VisionConfig& config() const { return config_; }

 protected:
  // Rank 4, floating, in_channels, at least one image, else throws the data Error promised above.
  // Gives them on the model's device.
  torch::Tensor checked_images(const torch::Tensor& images) const;

 private:
  VisionConfig config_;
};

// A float32 CPU model in training mode. Throws a usage Error where validate() does.
std::shared_ptr<ImageClassifier> make_image_classifier(const VisionConfig& config,
                                                       WeightInit init = WeightInit::kOfficial);

}  // namespace tost
