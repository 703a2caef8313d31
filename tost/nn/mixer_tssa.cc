#include "tost/nn/mixer_tssa.h"

#include "tost/nn/device_autocast.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/tssa.h"
#include "tost/ops/plain.h"

namespace tost {

TokenStatisticsMixer::TokenStatisticsMixer(const MixerConfig& config) : heads_(config.heads) {
  qkv = register_module("qkv", std::make_shared<Linear>(config.dim, config.dim, config.qkv_bias));
  to_out = register_module("to_out", std::make_shared<torch::nn::Module>("to_out"));
  out_ = to_out->register_module("0", std::make_shared<Linear>(config.dim, config.dim, true));
}

torch::Tensor TokenStatisticsMixer::subspaces() const {
  return qkv->weight.view({heads_, -1, qkv->weight.size(1)}).transpose(1, 2);
}

torch::Tensor TokenStatisticsMixer::forward(const torch::Tensor& x, const MixerCall& call) {
  auto w = qkv->forward(x);
  auto y = between(w, call);
  w.reset();  // a third of the memory that a call without gradients takes at its peak
  return out_->forward(y);
}

TssaMixer::TssaMixer(const MixerConfig& config) : TokenStatisticsMixer(config) {
  temp = register_parameter("temp", torch::ones({config.heads, 1}));
}

// The kernels sum over the tokens that are here alone.
std::tuple<torch::Tensor, torch::Tensor> TssaMixer::mix(const torch::Tensor& w,
                                                        const torch::Tensor& lengths) const {
  const TokenSums* sums = TokenSumsScope::current();
  if (sums == nullptr) return tssa(w, temp, lengths);
  const WithoutAutocast own_types;
  return tssa_plain_part(w, temp, lengths, sums);
}

torch::Tensor TssaMixer::between(const torch::Tensor& w, const MixerCall& call) {
  const auto [y, pi] = mix(w, call.lengths);
  if (call.trace != nullptr) *call.trace = {w, pi};
  return y;
}

torch::Tensor UniformMixer::between(const torch::Tensor& w, const MixerCall& call) {
  if (call.trace != nullptr) {
    auto pi = torch::full({w.size(0), heads_, w.size(1)}, 1.0 / heads_, w.options());
    if (call.lengths.defined()) pi = pi * own_tokens(call.lengths, w.size(1)).unsqueeze(1);
    *call.trace = {w, pi};
  }
  return tssa_uniform(w, heads_, call.lengths, TokenSumsScope::current());
}

torch::Tensor NoMixer::between(const torch::Tensor& w, const MixerCall& call) {
  if (call.trace != nullptr) call.trace->w = w;
  return w;
}

}  // namespace tost
