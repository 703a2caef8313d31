#include "tost/nn/causal_means.h"

#include <cmath>
#include <utility>

#include "tost/nn/token_sums_scope.h"
#include "tost/ops/plain.h"

namespace tost {

using torch::Tensor;

CausalMeansMixer::CausalMeansMixer(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim, parts = config.options.gate ? 3 : 2;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, parts * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  conv = add_conv(*this, c, config);
  means = register_module("means", std::make_shared<GroupMeans>(c));
  rates = register_module("rates",
                          std::make_shared<ForgettingRates>(config.heads, config.options.decay));
  router = register_module("router", std::make_shared<Linear>(c, config.heads, true));
  temp = register_parameter("temp", torch::ones({config.heads}));
}

Tensor CausalMeansMixer::membership(const Tensor& x) const {
  const auto logits = router->forward(x).to(torch::kFloat) * temp;
  return logits.softmax(-1) * double(config_.heads);
}

Tensor CausalMeansMixer::subspaces() const {
  return c_attn->weight.narrow(0, 0, config_.dim)
      .view({config_.heads, -1, config_.dim})
      .transpose(1, 2);
}

Tensor CausalMeansMixer::project(const Tensor& x) const {
  return convolved(conv, c_attn->forward_rows(x, 0, config_.dim), {});
}

Tensor CausalMeansMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t c = config_.dim;
  const auto parts = c_attn->forward(x).split(c, -1);
  const auto w = convolved(conv, parts[0], call);
  auto pi = membership(x), values = parts[1];
  if (call.lengths.defined()) {
    const auto valid = valid_tokens(call.lengths, x.size(1)).unsqueeze(2);
    pi = pi * valid;
    values = values.masked_fill(valid.logical_not(), 0);
  }
  if (call.trace != nullptr) {
    *call.trace = {w, (pi / double(config_.heads)).transpose(1, 2)};
  }
  Tensor* sums = call.part("means");
  const auto gate = config_.options.gate ? parts[2] : Tensor();
  if (call.trace != nullptr && gate.defined()) call.trace->gate = torch::silu(gate);
  const MeansCall means_call{w, values, gate, pi, rates->log_rates(), from_end_};
  if (call.trace != nullptr) means->trace(means_call, sums, *call.trace);
  return c_proj->forward(means->forward(means_call, sums));
}

MeansMixer::MeansMixer(const MixerConfig& c)
    : CausalMeansMixer({.dim = c.dim,
                        .heads = c.heads,
                        .bias = c.qkv_bias,
                        .options = {.decay = "learned", .gate = true}}) {
  from_end_ = c.heads / 2;
  const torch::NoGradGuard no_grad;
  const auto ladder = [](int64_t heads) { return ForgettingRates(heads, "learned").decay; };
  rates->decay.copy_(torch::cat({ladder(c.heads - from_end_), ladder(from_end_)}));
}

ForgettingRates::ForgettingRates(int64_t heads, const std::string& kind) {
  if (kind == "none") return;
  const auto horizon = torch::linspace(1, 8, heads).mul(std::log(2.0)).exp();
  const auto logit = (horizon - 1).log();  // gamma = 1 - 1 / horizon
  decay = kind == "learned" ? register_parameter("decay", logit) : register_buffer("decay", logit);
}

Tensor ForgettingRates::log_rates() const {
  return decay.defined() ? torch::log_sigmoid(decay.to(torch::kFloat)) : Tensor();
}

GroupMeans::GroupMeans(int64_t dim) {
  scale = register_parameter("scale", torch::ones({dim}));
}

Tensor GroupMeans::forward(const MeansCall& call, Tensor* sums) const {
  if (!has_fused_means(call)) return chunked(call, sums);
  const TokenSums* places = sums == nullptr ? TokenSumsScope::current() : nullptr;
  if (places == nullptr) return group_means(call, scale, sums);
  // Only float32 runs the fused kernels, because a bfloat16 token could not hold sums exactly.
  return call.values.scalar_type() == torch::kFloat ? fused_part(call, *places)
                                                    : chunked(call, nullptr);
}

namespace {

// Returns M and R after the last token [B, H, P + 1], and the factor of earlier sums [H or 1, 1].
// Works in pieces, so that products of single tokens take little memory.
std::pair<Tensor, Tensor> sums_at_end(const MeansCall& call) {
  const int64_t batch = call.pi.size(0), tokens = call.pi.size(1), heads = call.pi.size(2);
  const auto options = call.pi.options().dtype(torch::kFloat);
  const auto rates = call.log_rates.defined() ? call.log_rates.to(torch::kFloat).unsqueeze(1)
                                              : torch::zeros({1, 1}, options);
  const auto left = (rates * torch::arange(tokens - 1, -1, -1, options)).exp().t();  // [T, H]
  const auto weight = call.pi * left;
  const auto mass = (weight * call.pi).sum(1, /*keepdim=*/false, torch::kDouble);
  const auto weights = weight.unsqueeze(3).split(kPieceTokens, 1);
  const auto values = call.values.reshape({batch, tokens, heads, -1}).split(kPieceTokens, 1);
  auto sum = torch::zeros({}, options.dtype(torch::kDouble));
  for (size_t i = 0; i < values.size(); ++i) {
    sum = sum + (weights[i] * values[i]).sum(1, /*keepdim=*/false, torch::kDouble);
  }
  const auto remaining = (rates * double(tokens)).exp();
  return {torch::cat({sum, mass.unsqueeze(2)}, 2).to(torch::kFloat), remaining};
}

}  // namespace

// The kernel sums only the tokens of this process. An additional first token holds the sums of
// earlier processes, with their gradient.
Tensor GroupMeans::fused_part(const MeansCall& call, const TokenSums& sums) const {
  const auto [valid, remaining] = sums_at_end(call);
  const auto before = decayed_state_before(sums, remaining, valid);  // [B, H, P + 1]
  // Multiplies by zero in the first process, so that every process takes part in the backward
  // messages.
  if (sums.place == 0)
    return group_means(call, scale + before.sum().to(scale.scalar_type()), nullptr);
  const int64_t tokens = call.pi.size(1), width = before.size(2) - 1;
  const auto share = before.narrow(2, width, 1).clamp_min(1e-12).sqrt();  // [B, H, 1]
  const auto values = (before.narrow(2, 0, width) / share).flatten(1, 2).unsqueeze(1);
  const auto append = [](const Tensor& first, const Tensor& x) {
    return torch::cat({first.to(x.scalar_type()), x}, 1);
  };
  const auto nothing = torch::zeros_like(values);
  const MeansCall all{append(nothing, call.base), append(values, call.values),
                      call.gate.defined() ? append(nothing, call.gate) : call.gate,
                      append(share.transpose(1, 2), call.pi), call.log_rates};
  return group_means(all, scale, nullptr).narrow(1, 1, tokens);
}

void GroupMeans::trace(const MeansCall& call, const Tensor* sums, MixerTrace& trace) const {
  MeansCall values_only = call;
  values_only.base = torch::zeros_like(call.values);
  values_only.gate = Tensor();
  Tensor copy = sums != nullptr && sums->defined() ? sums->clone() : Tensor();
  trace.group_means = forward(values_only, sums != nullptr ? &copy : nullptr);
  trace.values = call.values * scale;
}

Tensor GroupMeans::chunked(const MeansCall& call, Tensor* sums) const {
  if (call.from_end > 0) {
    return in_reading_order(chunked(in_reading_order(call), sums), call.pi.size(2), call.from_end);
  }
  const auto& values = call.values;
  const int64_t batch = values.size(0), tokens = values.size(1), heads = call.pi.size(2);
  const int64_t width = values.size(2) / heads;
  const auto dtype = values.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const auto share = call.pi.to(dtype).unsqueeze(3);  // [B, T, H, 1]
  const auto split = values.to(dtype).reshape({batch, tokens, heads, width});
  const auto all =
      running_sums(torch::cat({split * share, share.square()}, 3), call.log_rates, sums);
  const auto spread = (all.narrow(3, width, 1) + 1e-6).rsqrt();
  const auto means = (all.narrow(3, 0, width) * spread).reshape(values.sizes());
  const auto y = call.base + (means * scale).to(values.scalar_type());
  return call.gate.defined() ? y * torch::silu(call.gate) : y;
}

}  // namespace tost
