#include "tost/kinds/vision/engine.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/engine/vision_engine.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

// The mixers of the model's blocks, which it shares.
VisionMixer mixers_of(const VisionTransformer& model, Precision precision) {
  std::vector<std::shared_ptr<TokenMixer>> mixers;
  for (const auto& block : *model.blocks) mixers.push_back(block->as<Block>()->attn);
  const auto precise = precision == Precision::kFp32 ? Autocast::kAsItIs : Autocast::kBfloat16;
  return [mixers, precise](int64_t block, const Array& x, float* y, SeenMixer*) {
    const c10::InferenceMode no_grad;
    const DeviceAutocast autocast(precise);
    const Tensor mixed = mixers[size_t(block)]->forward(tensor_of(x), {});
    torch::from_blob(y, mixed.sizes()).copy_(mixed);
  };
}

}  // namespace

bool VisionEngine::supports(const ImageClassifier& model) {
  const auto parameters = model.parameters();
  return dynamic_cast<const VisionTransformer*>(&model) != nullptr &&
         model.config().mlp == "gelu" &&
         std::all_of(parameters.begin(), parameters.end(), [](const Tensor& each) {
           return each.is_cpu() && each.scalar_type() == torch::kFloat;
         });
}

std::unique_ptr<PictureEngine> picture_engine(const ImageClassifier& model, Precision precision) {
  if (!VisionEngine::supports(model)) {
    fail_usage("The engine runs transformers with GELU and float32 weights on the CPU; model '",
               model.config().name, "' is not one of them.");
  }
  WeightSource source(arrays_of(state_dict(model)), "The model", /*finite=*/true);
  return std::make_unique<PictureEngine>(
      model.config(), source, precision,
      mixers_of(dynamic_cast<const VisionTransformer&>(model), precision));
}

VisionEngine::VisionEngine(const ImageClassifier& model, Precision precision)
    : config_(model.config()), engine_(picture_engine(model, precision)) {}

VisionEngine::~VisionEngine() = default;

Tensor VisionEngine::forward(const Tensor& images) {
  const c10::InferenceMode no_grad;
  const DeviceAutocast own_precision{Autocast::kOff};
  check_images(config_, images);
  const Tensor pictures = images.to(torch::kFloat).contiguous();
  Tensor logits = torch::empty({images.size(0), config_.classes});
  engine_->forward(pictures.const_data_ptr<float>(), images.size(0), images.size(2), images.size(3),
                   logits.mutable_data_ptr<float>());
  return logits;
}

}  // namespace tost
