#include "tost/nn/causal_delta.h"

#include <cmath>
#include <vector>

#include "tost/nn/device_autocast.h"
#include "tost/nn/token_sums_scope.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kDeltaChunk = 64;

struct Chunk {
  Tensor q, k, v;     // [B, H, n, P]
  Tensor beta;        // [B, H, n, 1]
  Tensor sum;         // of log decays up to each token [B, H, n, 1]; undefined without decay
  Tensor difference;  // e^{sum_i - sum_j} for j <= i [B, H, n, n]; undefined without decay
};

struct DeltaTokens {
  Tensor q, k, v, beta, log_decay;
};

// By split(), whose gradient is joined once: one of narrow() is as large as the whole.
std::vector<DeltaTokens> cut(const DeltaTokens& of) {
  const auto parts = [](const Tensor& x) { return x.split(kDeltaChunk, 2); };
  const auto q = parts(of.q), k = parts(of.k), v = parts(of.v), beta = parts(of.beta);
  const auto log_decay = of.log_decay.defined() ? parts(of.log_decay) : std::vector<Tensor>();
  std::vector<DeltaTokens> all;
  for (size_t i = 0; i < q.size(); ++i) {
    all.push_back({q[i], k[i], v[i], beta[i], log_decay.empty() ? Tensor() : log_decay[i]});
  }
  return all;
}

Chunk chunk_of(const DeltaTokens& of) {
  Chunk c{of.q, of.k, of.v, of.beta.unsqueeze(3), {}, {}};
  if (!of.log_decay.defined()) return c;
  c.sum = of.log_decay.cumsum(2).unsqueeze(3);
  // Later tokens would overflow before they are masked.
  c.difference = (c.sum - c.sum.transpose(2, 3)).clamp_max(0).exp();
  return c;
}

// The outputs of one chunk after `memory`, which is replaced.
Tensor run_chunk(const Chunk& c, Tensor& memory) {
  const bool decays = c.sum.defined();
  const auto keys = c.k.transpose(2, 3);
  auto overlap = torch::matmul(c.k, keys), seen = torch::matmul(c.q, keys).tril();
  auto known = torch::matmul(c.k, memory), out = torch::matmul(c.q, memory);
  if (decays) {
    const auto remaining = c.sum.exp();
    overlap = overlap * c.difference;
    seen = seen * c.difference;
    known = known * remaining;
    out = out * remaining;
  }
  const auto u = at::linalg_solve_triangular((overlap * c.beta).tril(-1), c.beta * (c.v - known),
                                             /*upper=*/false, /*left=*/true,
                                             /*unitriangular=*/true);
  out = out + torch::matmul(seen, u);
  if (!decays) {
    memory = memory + torch::matmul(keys, u);
    return out;
  }
  const auto total = c.sum.narrow(2, c.sum.size(2) - 1, 1);
  memory = memory * total.exp() + torch::matmul((c.k * (total - c.sum).exp()).transpose(2, 3), u);
  return out;
}

Tensor run_chunks(const DeltaTokens& of, Tensor& memory) {
  std::vector<Tensor> out;
  for (const DeltaTokens& part : cut(of)) out.push_back(run_chunk(chunk_of(part), memory));
  return torch::cat(out, 2);
}

Tensor no_memory(const Tensor& k, const Tensor& v) {
  return torch::zeros({k.size(0), k.size(1), k.size(3), v.size(3)}, k.options());
}

// Outputs and memory are affine in the memory before. The identity as memory with zeros as values
// gives the linear part of both.
Tensor delta_of_places(const DeltaTokens& of, const TokenSums& sums) {
  const int64_t keys = of.k.size(3), values = of.v.size(3);
  const DeltaTokens wide{of.q, of.k, torch::cat({of.v, torch::zeros_like(of.k)}, 3), of.beta,
                         of.log_decay};
  const auto identity =
      torch::eye(keys, of.k.options()).expand({of.k.size(0), of.k.size(1), -1, -1});
  auto memory = torch::cat({no_memory(of.k, of.v), identity}, 3);
  const Tensor out = run_chunks(wide, memory);
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

// The steps of a token after each other: [B, T, steps, H, ...] → [B, H, T steps, ...].
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
  auto now = memory != nullptr && memory->defined() ? *memory : no_memory(k, v);
  const Tensor out = run_chunks({q, k, v, beta, log_decay}, now);
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
  // softplus(decay) = 1 / horizon
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
