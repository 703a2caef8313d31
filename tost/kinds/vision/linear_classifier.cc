#include "tost/kinds/vision/linear_classifier.h"

#include "tost/base/error.h"

namespace tost {

LinearClassifier::LinearClassifier(const VisionConfig& config) : ImageClassifier(config) {
  const int64_t features = config.in_channels * config.image_size * config.image_size;
  head = register_module("head", std::make_shared<Linear>(features, config.classes, true));
}

torch::Tensor LinearClassifier::forward(const torch::Tensor& any_images) {
  const auto images = checked_images(any_images);
  const int64_t side = config().image_size;
  if (images.size(2) != side || images.size(3) != side) {
    fail_data("The linear model was built for images of ", side, " x ", side, " pixels, found ",
              images.size(2), " x ", images.size(3), "; resize them.");
  }
  return head->forward(images.flatten(1));
}

torch::Tensor LinearClassifier::forward_traced(const torch::Tensor& images, VisionTrace& trace) {
  trace = VisionTrace{};
  return forward(images);
}

}  // namespace tost
