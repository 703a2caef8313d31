#include "tost/nn/causal_mixer.h"

#include <cmath>

#include "tost/nn/token_sums_scope.h"

namespace tost {

using torch::Tensor;

std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config) {
  if (!config.options.gate) return nullptr;
  return mixer.register_module("gate",
                               std::make_shared<Linear>(config.dim, config.dim, config.bias));
}

std::shared_ptr<CausalConv> add_conv(torch::nn::Module& mixer, int64_t channels,
                                     const CausalMixerConfig& config) {
  if (config.options.conv < 1) return nullptr;
  return mixer.register_module("conv", std::make_shared<CausalConv>(channels, config.options.conv));
}

Tensor convolved(const std::shared_ptr<CausalConv>& conv, const Tensor& x, const MixerCall& call) {
  return conv == nullptr ? x : conv->forward(x, call.part("conv"));
}

Tensor project_gated(const Tensor& y, const Tensor& x, const Linear* gate, const Linear& out,
                     MixerTrace* trace) {
  if (gate == nullptr) return out.forward(y);
  const auto factor = torch::silu(gate->forward(x));
  if (trace != nullptr) trace->gate = factor;
  return out.forward(y * factor);
}

namespace {

// The last `count` tokens of the concatenation of `past` and x.
Tensor last_tokens(const Tensor& x, const Tensor& past, int64_t count) {
  const int64_t tokens = x.size(1);
  if (tokens >= count) return x.narrow(1, tokens - count, count).detach().clone();
  const auto before =
      past.defined() ? past : torch::zeros({x.size(0), count, x.size(2)}, x.options());
  return torch::cat({before, x}, 1).narrow(1, tokens, count).detach().clone();
}

// Convolves x [B, T, C] with weight [taps, C]; `past` is that of TokenConvolution::forward().
Tensor causal_conv(const Tensor& x, const Tensor& weight, const Tensor& past) {
  const int64_t taps = weight.size(0), tokens = x.size(1);
  const auto filter = weight.to(x.scalar_type());
  const auto before =
      past.defined() ? past : torch::zeros({x.size(0), taps - 1, x.size(2)}, x.options());
  const auto all = torch::cat({before, x}, 1);  // [B, taps - 1 + T, C]
  auto y = x * filter[taps - 1];
  for (int64_t i = 0; i + 1 < taps; ++i) {
    y = torch::addcmul(y, all.narrow(1, i, tokens), filter[i]);
  }
  return y;
}

}  // namespace

CausalConv::CausalConv(int64_t channels, int64_t taps) {
  const double bound = 1 / std::sqrt(double(taps));
  weight = register_parameter("weight", torch::empty({taps, channels}).uniform_(-bound, bound));
}

Tensor CausalConv::forward(const Tensor& x, Tensor* past) const {
  const int64_t earlier = weight.size(0) - 1;
  if (const TokenSums* sums = TokenSumsScope::current();
      sums != nullptr && past == nullptr && earlier > 0) {
    // Uses the last tokens of the previous process, to which gradients flow, unlike to a state.
    const Tensor all = torch::cat({tokens_before(*sums, x, earlier), x}, 1);
    return causal_conv(all, weight, {}).narrow(1, earlier, x.size(1));
  }
  const Tensor before = past != nullptr ? *past : Tensor();
  if (past != nullptr) *past = last_tokens(x, before, earlier);
  return causal_conv(x, weight, before);
}

}  // namespace tost
