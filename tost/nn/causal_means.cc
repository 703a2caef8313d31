#include "tost/nn/causal_means.h"

namespace tost {

using torch::Tensor;

CausalMeansMixer::CausalMeansMixer(const CausalMixerConfig& config, bool uniform)
    : config_(config) {
  const int64_t c = config.dim, parts = config.options.gate ? 3 : 2;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, parts * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  if (config.options.conv > 0) {
    conv = register_module("conv", std::make_shared<CausalConv>(c, config.options.conv));
  }
  means = register_module("means", std::make_shared<GroupMeans>(c));
  rates = register_module("rates",
                          std::make_shared<ForgettingRates>(config.heads, config.options.decay));
  if (uniform) return;
  router = register_module("router", std::make_shared<Linear>(c, config.heads, true));
  temp = register_parameter("temp", torch::ones({config.heads}));
}

Tensor CausalMeansMixer::membership(const Tensor& x) const {
  if (router == nullptr) {
    return torch::ones({x.size(0), x.size(1), config_.heads}, x.options().dtype(torch::kFloat));
  }
  const auto logits = router->forward(x).to(torch::kFloat) * temp;
  return logits.softmax(-1) * double(config_.heads);
}

Tensor CausalMeansMixer::subspaces() const {
  return c_attn->weight.narrow(0, 0, config_.dim)
      .view({config_.heads, -1, config_.dim})
      .transpose(1, 2);
}

Tensor CausalMeansMixer::project(const Tensor& x) const {
  const auto u = c_attn->forward_rows(x, 0, config_.dim);
  return conv == nullptr ? u : conv->forward(u, nullptr);
}

Tensor CausalMeansMixer::forward(const Tensor& x, const CausalCall& call) {
  const int64_t c = config_.dim;
  const auto parts = c_attn->forward(x).split(c, -1);
  auto w = parts[0];
  if (conv != nullptr) {
    w = conv->forward(w, call.state != nullptr ? &(*call.state)["conv"] : nullptr);
  }
  const auto pi = membership(x);
  if (call.trace != nullptr) {
    *call.trace = {w, (pi / double(config_.heads)).transpose(1, 2)};
  }
  Tensor* sums = call.state != nullptr ? &(*call.state)["means"] : nullptr;
  const auto gate = config_.options.gate ? parts[2] : Tensor();
  if (call.trace != nullptr && gate.defined()) call.trace->gate = torch::silu(gate);
  return c_proj->forward(means->forward({w, parts[1], gate, pi, rates->log_rates()}, sums));
}

}  // namespace tost
