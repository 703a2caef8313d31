#include "tost/kinds/vision/image_classifier.h"

#include "tost/base/error.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/module_device.h"

namespace tost {
namespace {

// One linear map of flattened pixels: the baseline of all vision models.
class LinearClassifier : public ImageClassifier {
 public:
  explicit LinearClassifier(const VisionConfig& config);

  // Maps square images of the configuration's side to logits.
  torch::Tensor forward(const torch::Tensor& images) override;
  torch::Tensor forward_traced(const torch::Tensor& images, VisionTrace& trace) override;

  std::shared_ptr<Linear> head;
};

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

}  // namespace

void check_images(const VisionConfig& config, const torch::Tensor& images) {
  if (images.dim() == 4 && images.size(1) == config.in_channels && images.numel() > 0 &&
      images.is_floating_point()) {
    return;
  }
  fail_data("Model '", config.name, "' needs floating-point images [batch, ", config.in_channels,
            ", height, width], found ", images.dtype(), " ", images.sizes(), ".");
}

torch::Tensor ImageClassifier::checked_images(const torch::Tensor& images) const {
  check_images(config_, images);
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
