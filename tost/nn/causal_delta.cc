#include "tost/nn/causal_delta.h"

#include <cmath>

#include "tost/nn/precision.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/delta.h"

namespace tost {

using torch::Tensor;

namespace {

// Computes the affine map from the initial memory to outputs and memory. A call with the identity
// as memory and zeros as values gives the linear part of both.
Tensor delta_of_places(const DeltaCall& of, const TokenSums& sums) {
  const int64_t keys = of.k.size(3), values = of.v.size(3);
  const DeltaCall wide{of.q, of.k, torch::cat({of.v, torch::zeros_like(of.k)}, 3), of.beta,
                       of.log_decay};
  const auto identity =
      torch::eye(keys, of.k.options()).expand({of.k.size(0), of.k.size(1), -1, -1});
  auto memory = torch::cat(
      {torch::zeros({of.k.size(0), of.k.size(1), keys, values}, of.k.options()), identity}, 3);
  const Tensor out = gated_delta_plain(wide, memory);
  const Tensor before =
      state_before(sums, memory.narrow(3, values, keys), memory.narrow(3, 0, values));
  return out.narrow(3, 0, values) + torch::matmul(out.narrow(3, values, keys), before);
}

torch::ScalarType delta_type(const Tensor& x) {
  return x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

Tensor unit(const Tensor& x) {
  return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt();
}

// Reshapes [B, T, steps, H, ...] to [B, H, T steps, ...] with adjacent steps of a token.
Tensor in_turn(const Tensor& x) {
  return x.movedim(3, 1).flatten(2, 3);
}

}  // namespace

Tensor delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                  const Tensor& log_decay, Tensor* memory) {
  const WithoutAutocast no_autocast;
  if (q.size(2) == 0) return q;
  if (const TokenSums* sums = TokenSumsScope::current(); sums != nullptr && memory == nullptr) {
    return delta_of_places({q, k, v, beta, log_decay}, *sums);
  }
  Tensor now = memory != nullptr ? *memory : Tensor();
  const Tensor out = gated_delta({q, k, v, beta, log_decay}, now);
  if (memory != nullptr) *memory = now.detach();
  return out;
}

CausalDeltaMixer::CausalDeltaMixer(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim, heads = config.heads;
  const auto& o = config.options;
  const int64_t parts = 1 + 2 * o.delta_steps;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, parts * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  beta = register_module("beta", std::make_shared<Linear>(c, o.delta_steps * heads, true));
  conv = add_conv(*this, parts * c, config);
  gate = add_gate(*this, config);
  norm = register_parameter("norm", torch::ones({c / heads}));
  if (o.decay == "none") return;
  // Solves softplus(decay) = 1 / horizon for decay.
  const auto rate = torch::linspace(4, 10, heads).mul(-std::log(2.0)).exp();
  const auto start = rate.expm1().log();
  const bool learned = o.decay == "learned";
  decay = learned ? register_parameter("decay", start) : register_buffer("decay", start);
  if (learned) forget = register_module("forget", std::make_shared<Linear>(c, heads, false));
}

Tensor CausalDeltaMixer::log_decay(const Tensor& x) const {
  if (!decay.defined()) return {};
  const auto level = decay.to(delta_type(x));
  const auto shift = forget != nullptr
                         ? forget->forward(x).to(delta_type(x))
                         : torch::zeros({x.size(0), x.size(1), config_.heads}, level.options());
  return torch::softplus(shift + level).neg().transpose(1, 2);
}

Tensor CausalDeltaMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2), heads = config_.heads;
  const int64_t steps = config_.options.delta_steps;
  const auto parts = torch::silu(convolved(conv, c_attn->forward(x), call).to(delta_type(x)))
                         .view({batch, tokens, 1 + 2 * steps, heads, dim / heads});
  const auto q = in_turn(parts.narrow(2, 0, 1).expand({-1, -1, steps, -1, -1}));
  const auto k = in_turn(parts.narrow(2, 1, steps)), v = in_turn(parts.narrow(2, 1 + steps, steps));
  const auto strength = beta->forward(x).to(delta_type(x)).sigmoid() * config_.options.beta_range;
  Tensor forgotten = log_decay(x);
  if (forgotten.defined() && steps > 1) {  // at a token's first step
    forgotten = torch::constant_pad_nd(forgotten.unsqueeze(3), {0, steps - 1}).flatten(2);
  }
  auto found =
      delta_rule(unit(q), unit(k), v, in_turn(strength.view({batch, tokens, steps, heads})),
                 forgotten, call.part("memory"));
  found = found.slice(2, steps - 1, std::nullopt, steps);  // what a token reads after its last
  const auto scale = (found.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt();
  const auto y = (found * scale * norm).transpose(1, 2).reshape({batch, tokens, dim});
  return project_gated(y.to(x.scalar_type()), x, gate.get(), *c_proj, call.trace);
}

}  // namespace tost
