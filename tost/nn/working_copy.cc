#include "tost/nn/working_copy.h"

#include <ATen/autocast_mode.h>

#include <utility>

#include "tost/nn/layers.h"

namespace tost {

using torch::Tensor;

WorkingCopy::WorkingCopy(Tensor weight, bool separate_gradient) : weight_(std::move(weight)) {
  const torch::NoGradGuard no_grad;
  values_ = weight_.detach().to(torch::kBFloat16);
  version_ = weight_._version();
  values_.set_requires_grad(separate_gradient && weight_.requires_grad());
}

const Tensor& WorkingCopy::values() {
  if (weight_._version() != version_) {
    const torch::NoGradGuard no_grad;
    values_.copy_(weight_);
    version_ = weight_._version();
  }
  return values_;
}

void WorkingCopy::note_written() {
  weight_.unsafeGetTensorImpl()->bump_version();
  values_.unsafeGetTensorImpl()->bump_version();
  version_ = weight_._version();
}

std::vector<std::shared_ptr<WorkingCopy>> keep_working_copies(torch::nn::Module& module,
                                                              bool separate_gradients) {
  std::vector<std::shared_ptr<WorkingCopy>> copies;
  const auto keep = [&](const Tensor& weight, std::shared_ptr<WorkingCopy>& copy) {
    copy = std::make_shared<WorkingCopy>(weight, separate_gradients);
    copies.push_back(copy);
  };
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* linear = child->as<Linear>()) keep(linear->weight, linear->copy);
    auto* table = child->as<Embedding>();
    if (table != nullptr && table->in_products) keep(table->weight, table->copy);
  }
  return copies;
}

namespace {

bool casts_to_bfloat16(at::DeviceType device) {
  return at::autocast::is_autocast_enabled(device) &&
         at::autocast::get_autocast_dtype(device) == torch::kBFloat16;
}

// Returns the values of the copy, and passes their gradient to the weight.
class ThroughCopy : public torch::autograd::Function<ThroughCopy> {
 public:
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& /*weight*/,
                        const Tensor& values) {
    return values.alias();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0].to(torch::kFloat), Tensor()};
  }
};

}  // namespace

Tensor product_weight(const Tensor& weight, const std::shared_ptr<WorkingCopy>& copy) {
  if (copy == nullptr || !casts_to_bfloat16(weight.device().type())) return weight;
  const Tensor values = copy->values();
  const bool direct = values.requires_grad() || !weight.requires_grad();
  return direct || !torch::GradMode::is_enabled() ? values : ThroughCopy::apply(weight, values);
}

}  // namespace tost
