#include "tost/nn/layers.h"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <utility>

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

Linear::Linear(int64_t in, int64_t out, bool with_bias) {
  weight = register_parameter("weight", torch::empty({out, in}));
  if (with_bias) bias = register_parameter("bias", torch::empty({out}));
}

torch::Tensor Linear::forward_rows(const torch::Tensor& x, int64_t first, int64_t count) const {
  return torch::linear(x, product_weight().narrow(0, first, count),
                       bias.defined() ? bias.narrow(0, first, count) : bias);
}

Embedding::Embedding(int64_t rows, int64_t dim) {
  weight = register_parameter("weight", torch::empty({rows, dim}));
}

LayerNorm::LayerNorm(int64_t dim, double eps, bool with_bias) : eps_(eps) {
  weight = register_parameter("weight", torch::ones({dim}));
  if (with_bias) bias = register_parameter("bias", torch::zeros({dim}));
}

torch::Tensor LayerNorm::forward(const torch::Tensor& x) const {
  return torch::layer_norm(x, weight.sizes(), weight, bias, eps_);
}

torch::Tensor LayerNorm::forward_doubled(const torch::Tensor& x) const {
  return torch::layer_norm(x, weight.sizes(), weight * 2, bias * 2, eps_);
}

torch::Tensor add_scaled(const torch::Tensor& x, const torch::Tensor& gamma,
                         const torch::Tensor& branch, double drop_path) {
  if (drop_path <= 0) return torch::addcmul(x, gamma, branch);
  const double keep = 1 - drop_path;
  const auto kept = torch::empty({x.size(0), 1, 1}, x.options().dtype(torch::kFloat));
  return torch::addcmul(x, gamma * kept.bernoulli_(keep).div_(keep), branch);
}

void init_linears(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  for (const auto& child : module.modules(/*include_self=*/false)) {
    auto* linear = child->as<Linear>();
    if (linear == nullptr) continue;
    linear->weight.normal_(0, 0.02);
    if (linear->bias.defined()) linear->bias.zero_();
  }
}

Tensor sinusoidal_positions(int64_t tokens, int64_t dim) {
  const auto fp64 = torch::dtype(torch::kFloat64);
  const auto position = torch::arange(tokens, fp64).unsqueeze(1);
  const auto rate = torch::exp(torch::arange(0, dim, 2, fp64) * (-std::log(10000.0) / double(dim)));
  const auto angle = position * rate;  // [N, (C + 1) / 2]
  return torch::stack({angle.sin(), angle.cos()}, 2)
      .flatten(1)
      .narrow(1, 0, dim)
      .to(torch::kFloat32)
      .contiguous();
}

Tensor SinusoidalTable::rows(int64_t tokens, const Tensor& like) {
  const std::lock_guard lock(mutex_);
  if (!table_.defined() || table_.size(0) < tokens || table_.device() != like.device() ||
      table_.dtype() != like.dtype()) {
    // Leaves inference mode, because training could not use a table from inference mode.
    const c10::InferenceMode plain(false);
    table_ = sinusoidal_positions(tokens, like.size(-1)).to(like.options());
  }
  return table_.narrow(0, 0, tokens);
}

}  // namespace tost
