// Flattened pixels and one Linear: the floor every vision model has to beat.
#pragma once

#include <memory>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/layers.h"

namespace tost {

class LinearClassifier : public ImageClassifier {
 public:
  explicit LinearClassifier(const VisionConfig& config);

  // Images must be square with the side of the config.
  torch::Tensor forward(const torch::Tensor& images) override;
  torch::Tensor forward_traced(const torch::Tensor& images, VisionTrace& trace) override;

  std::shared_ptr<Linear> head;
};

}  // namespace tost
