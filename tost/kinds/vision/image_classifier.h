// The interface of all image classifiers, which map images to logits.
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
// undefined. Tensors are not detached, so gradients can flow through them. The N patch tokens are
// row-major over rows x columns; R registers follow the patches, so there are M = N + R tokens.
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

  // Maps images [B, in_channels, Y, X] to logits [B, classes] on the model's device, to which it
  // moves images. The official code, made for distillation, returns logits twice in training.
  // Throws a data Error if the images do not fit the model.
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  // Returns the same logits, and replaces `trace` by the intermediate results.
  virtual torch::Tensor forward_traced(const torch::Tensor& images, VisionTrace& trace) = 0;

  const VisionConfig& config() const { return config_; }

 protected:
  // Returns images on the model's device, checked by check_images().
  torch::Tensor checked_images(const torch::Tensor& images) const;

 private:
  VisionConfig config_;
};

// Throws the data Error of forward() unless images have rank 4, a floating type, in_channels
// channels and at least one image.
void check_images(const VisionConfig& config, const torch::Tensor& images);

// Makes a float32 model on the CPU in training mode. Throws as validate().
std::shared_ptr<ImageClassifier> make_image_classifier(const VisionConfig& config,
                                                       WeightInit init = WeightInit::kOfficial);

}  // namespace tost
