#include "tost/models/causal_tssa.h"

#include "tost/models/running_sums.h"
#include "tost/ops/tssa_causal.h"

namespace tost {

using torch::Tensor;

CausalStatisticsMixer::CausalStatisticsMixer(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  if (config.options.conv > 0) {
    conv = register_module("conv", std::make_shared<CausalConv>(c, config.options.conv));
  }
  if (config.options.gate) {
    gate = register_module("gate", std::make_shared<Linear>(c, c, config.bias));
  }
}

Tensor CausalStatisticsMixer::project_in(const Tensor& x, MixerState* state) const {
  const auto w = c_attn->forward(x);
  if (conv == nullptr) return w;
  return conv->forward(w, state != nullptr ? &(*state)["conv"] : nullptr);
}

Tensor CausalStatisticsMixer::project_out(const Tensor& y, const Tensor& x) const {
  return c_proj->forward(gate == nullptr ? y : y * torch::silu(gate->forward(x)));
}

CausalTssaMixer::CausalTssaMixer(const CausalMixerConfig& config) : CausalStatisticsMixer(config) {
  const int64_t wanted = config.options.bias_positions;
  temp = register_parameter("temp", torch::ones({config.heads, 1}));
  denom_bias = register_parameter(
      "denom_bias", torch::zeros({config.heads, wanted < 0 ? config.block : wanted, 1}));
}

Tensor CausalTssaMixer::forward(const Tensor& x, const CausalCall& call) {
  const auto w = project_in(x, call.state);
  std::optional<Tensor> before;
  if (call.state != nullptr && call.state->count("statistics"))
    before = (*call.state)["statistics"];
  const auto [y, pi, after] = tssa_causal(w, temp, denom_bias, before, call.position);
  if (call.state != nullptr) (*call.state)["statistics"] = after;
  if (call.trace != nullptr) *call.trace = {w, pi};
  return project_out(config_.options.scale_pi ? y * double(config_.heads) : y, x);
}

Tensor CausalUniformMixer::forward(const Tensor& x, const CausalCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = config_.heads;
  const auto w = project_in(x, call.state);
  const auto squares = w.to(torch::kFloat).pow(2).view({batch, tokens, heads, config_.dim / heads});
  Tensor* carry = call.state != nullptr ? &(*call.state)["statistics"] : nullptr;
  const auto sums = running_sums(squares, {}, carry).reshape({batch, tokens, config_.dim});
  const auto seen = torch::arange(call.position + 1, call.position + tokens + 1, sums.options());
  const auto damping = 1 / (1 + sums / seen.view({1, -1, 1}));
  const double share = config_.options.scale_pi ? 1.0 : 1.0 / double(heads);
  if (call.trace != nullptr) {
    *call.trace = {w, torch::full({batch, heads, tokens}, 1.0 / double(heads), sums.options())};
  }
  return project_out(w * (-share * damping).to(w.scalar_type()), x);
}

Tensor CausalNoMixer::forward(const Tensor& x, const CausalCall& call) {
  const auto w = project_in(x, call.state);
  if (call.trace != nullptr) call.trace->w = w;
  return project_out(w, x);
}

}  // namespace tost
