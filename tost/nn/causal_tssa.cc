#include "tost/nn/causal_tssa.h"

#include <algorithm>
#include <tuple>

#include "tost/nn/precision.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/plain.h"
#include "tost/ops/tssa_causal.h"

namespace tost {

using torch::Tensor;

namespace {

// The position of the first token of a call with `tokens` tokens.
int64_t position_of(const MixerCall& call, int64_t tokens) {
  return call.position + (call.state == nullptr ? first_position(tokens) : 0);
}

}  // namespace

CausalStatisticsMixer::CausalStatisticsMixer(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  conv = add_conv(*this, c, config);
  gate = add_gate(*this, config);
}

Tensor CausalStatisticsMixer::project_in(const Tensor& x, const MixerCall& call) const {
  return convolved(conv, c_attn->forward(x), call);
}

Tensor CausalStatisticsMixer::project_out(const Tensor& y, const Tensor& x,
                                          MixerTrace* trace) const {
  return project_gated(y, x, gate.get(), *c_proj, trace);
}

Tensor CausalStatisticsMixer::subspaces() const {
  return c_attn->weight.view({config_.heads, -1, config_.dim}).transpose(1, 2);
}

CausalTssaMixer::CausalTssaMixer(const CausalMixerConfig& config) : CausalStatisticsMixer(config) {
  const int64_t wanted = config.options.bias_positions;
  temp = register_parameter("temp", torch::ones({config.heads, 1}));
  denom_bias = register_parameter(
      "denom_bias", torch::zeros({config.heads, wanted < 0 ? config.block : wanted, 1}));
  rates = register_module("rates",
                          std::make_shared<ForgettingRates>(config.heads, config.options.decay));
  if (config.options.means == "none") return;
  means = register_module("means", std::make_shared<GroupMeans>(config.dim));
  if (config.options.means == "values") {
    values =
        register_module("values", std::make_shared<Linear>(config.dim, config.dim, config.bias));
  }
}

std::pair<Tensor, Tensor> CausalTssaMixer::forgetting(const Tensor& w,
                                                      const MixerCall& call) const {
  const int64_t batch = w.size(0), tokens = w.size(1), heads = config_.heads;
  const int64_t width = config_.dim / heads;
  const auto log_rates = rates->log_rates();
  const auto split = w.to(torch::kFloat).view({batch, tokens, heads, width});
  const auto squares = split.square();
  const auto energy = running_sums(squares, log_rates, call.part("energy")).clamp_min(1e-12);
  auto logits = (squares / energy).sum(-1);  // [B, T, H]
  const int64_t first = position_of(call, tokens);
  const int64_t biased = std::clamp<int64_t>(denom_bias.size(1) - first, 0, tokens);
  if (biased > 0) {
    const auto bias = denom_bias.narrow(1, first, biased).squeeze(2).t() * double(width);
    logits = logits + torch::constant_pad_nd(bias, {0, 0, 0, tokens - biased});
  }
  const auto pi = (logits * temp.squeeze(1)).softmax(-1);
  const auto share = pi.unsqueeze(3);
  const auto sums =
      running_sums(torch::cat({squares * share, share}, 3), log_rates, call.part("moments"));
  const auto moment = sums.narrow(3, 0, width) / (sums.narrow(3, width, 1) + 1e-8);
  const auto y = -(split * share) / (1 + moment);
  return {y.reshape(w.sizes()).to(w.scalar_type()), pi};
}

Tensor CausalTssaMixer::forward(const Tensor& x, const MixerCall& call) {
  return project_out(mix(project_in(x, call), x, call), x, call.trace);
}

Tensor CausalTssaMixer::mix(const Tensor& w, const Tensor& x, const MixerCall& call) {
  Tensor y, pi;  // pi [B, H, T]
  if (config_.options.decay != "none") {
    std::tie(y, pi) = forgetting(w, call);
    pi = pi.transpose(1, 2);
  } else if (const TokenSums* sums = TokenSumsScope::current();
             sums != nullptr && call.state == nullptr) {
    const WithoutAutocast no_autocast;  // the kernels sum only over local tokens
    const int64_t position = position_of(call, w.size(1));
    std::tie(y, pi, std::ignore) = tssa_causal_plain_part(w, temp, denom_bias, {}, position, sums);
  } else {
    std::optional<Tensor> before;
    if (call.state != nullptr && call.state->count("statistics")) {
      before = (*call.state)["statistics"];
    }
    Tensor after;
    std::tie(y, pi, after) = tssa_causal(w, temp, denom_bias, before, call.position);
    if (call.state != nullptr) (*call.state)["statistics"] = after;
  }
  if (call.trace != nullptr) *call.trace = {w, pi};
  if (config_.options.scale_pi) y = y * double(config_.heads);
  if (means != nullptr) {
    Tensor* sums = call.part("means");
    const auto share = pi.transpose(1, 2) * double(config_.heads);
    const auto of = values != nullptr ? values->forward(x) : w;
    const MeansCall means_call{y, of, {}, share, rates->log_rates()};
    if (call.trace != nullptr) means->trace(means_call, sums, *call.trace);
    y = means->forward(means_call, sums);
  }
  return y;
}

Tensor CausalUniformMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = config_.heads;
  const auto w = project_in(x, call);
  const auto squares = w.to(torch::kFloat).pow(2).view({batch, tokens, heads, config_.dim / heads});
  Tensor* carry = call.part("statistics");
  const auto sums = running_sums(squares, {}, carry).reshape({batch, tokens, config_.dim});
  const int64_t first = position_of(call, tokens);
  const auto seen = torch::arange(first + 1, first + tokens + 1, sums.options());
  const auto damping = 1 / (1 + sums / seen.view({1, -1, 1}));
  const double share = config_.options.scale_pi ? 1.0 : 1.0 / double(heads);
  if (call.trace != nullptr) {
    *call.trace = {w, torch::full({batch, heads, tokens}, 1.0 / double(heads), sums.options())};
  }
  return project_out(w * (-share * damping).to(w.scalar_type()), x, call.trace);
}

Tensor CausalNoMixer::forward(const Tensor& x, const MixerCall& call) {
  const auto w = project_in(x, call);
  if (call.trace != nullptr) call.trace->w = w;
  return project_out(w, x, call.trace);
}

}  // namespace tost
