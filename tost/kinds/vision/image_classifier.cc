#include "tost/kinds/vision/image_classifier.h"

#include "tost/base/error.h"
#include "tost/kinds/vision/linear_classifier.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/layers.h"
#include "tost/nn/module_device.h"

namespace tost {

torch::Tensor ImageClassifier::checked_images(const torch::Tensor& images) const {
  if (images.dim() != 4 || images.size(1) != config_.in_channels || images.numel() == 0 ||
      !images.is_floating_point()) {
    fail_data("Model '", config_.name, "' needs floating-point images [batch, ",
              config_.in_channels, ", height, width], found ", images.dtype(), " ", images.sizes(),
              ".");
  }
  return to_device(images, device_of(*this));
}

std::shared_ptr<ImageClassifier> make_image_classifier(const VisionConfig& config,
                                                       WeightInit init) {
  validate(config);
  std::shared_ptr<ImageClassifier> model;
  if (config.architecture == "linear") {
    model = std::make_shared<LinearClassifier>(config);
  } else {
    model = std::make_shared<VisionTransformer>(config);
  }
  if (init == WeightInit::kOfficial) {
    init_linears(*model);
    for (const auto& module : model->modules(/*include_self=*/false)) {
      if (auto* mixer = module->as<TokenMixer>()) mixer->draw_weights();
    }
    if (auto* transformer = model->as<VisionTransformer>()) {
      const torch::NoGradGuard no_grad;
      transformer->cls_token.normal_(0, 0.02);
      if (transformer->registers.defined()) transformer->registers.normal_(0, 0.02);
    }
  }
  return model;
}

}  // namespace tost
