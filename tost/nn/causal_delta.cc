#include "tost/nn/causal_delta.h"

#include <algorithm>
#include <cmath>

#include "tost/nn/device_autocast.h"

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

Chunk cut(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
          const Tensor& log_decay, int64_t first, int64_t count) {
  const auto part = [&](const Tensor& x) { return x.narrow(2, first, count); };
  Chunk c{part(q), part(k), part(v), part(beta).unsqueeze(3), {}, {}};
  if (!log_decay.defined()) return c;
  c.sum = part(log_decay).cumsum(2).unsqueeze(3);
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
    const auto kept = c.sum.exp();
    overlap = overlap * c.difference;
    seen = seen * c.difference;
    known = known * kept;
    out = out * kept;
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

Tensor unit(const Tensor& x) {
  return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt();
}

}  // namespace

Tensor delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                  const Tensor& log_decay, Tensor* memory) {
  const WithoutAutocast own_types;
  const int64_t tokens = q.size(2);
  if (tokens == 0) return q;
  auto now = memory != nullptr && memory->defined()
                 ? *memory
                 : torch::zeros({q.size(0), q.size(1), k.size(3), v.size(3)}, q.options());
  std::vector<Tensor> out;
  for (int64_t t = 0; t < tokens; t += kDeltaChunk) {
    out.push_back(
        run_chunk(cut(q, k, v, beta, log_decay, t, std::min(kDeltaChunk, tokens - t)), now));
  }
  if (memory != nullptr) *memory = now.detach();
  return torch::cat(out, 2);
}

CausalDeltaMixer::CausalDeltaMixer(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim, heads = config.heads;
  const auto& o = config.options;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, 3 * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  beta = register_module("beta", std::make_shared<Linear>(c, heads, true));
  if (o.conv > 0) conv = register_module("conv", std::make_shared<CausalConv>(3 * c, o.conv));
  gate = make_gate(config);
  if (gate != nullptr) register_module("gate", gate);
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
  const auto level = decay.to(torch::kFloat);
  const auto shift = forget != nullptr
                         ? forget->forward(x).to(torch::kFloat)
                         : torch::zeros({x.size(0), x.size(1), config_.heads}, level.options());
  return torch::softplus(shift + level).neg().transpose(1, 2);
}

Tensor CausalDeltaMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2);
  auto qkv = c_attn->forward(x);
  if (conv != nullptr) {
    qkv = conv->forward(qkv, call.state != nullptr ? &(*call.state)["conv"] : nullptr);
  }
  const auto parts = torch::silu(qkv.to(torch::kFloat))
                         .view({batch, tokens, 3, config_.heads, dim / config_.heads})
                         .permute({2, 0, 3, 1, 4});
  const auto strength = beta->forward(x).to(torch::kFloat).sigmoid().transpose(1, 2);
  const auto found = delta_rule(unit(parts[0]), unit(parts[1]), parts[2], strength, log_decay(x),
                                call.state != nullptr ? &(*call.state)["memory"] : nullptr);
  const auto scale = (found.square().mean(-1, /*keepdim=*/true) + 1e-5).rsqrt();
  const auto y = (found * scale * norm).transpose(1, 2).reshape({batch, tokens, dim});
  return project_gated(y.to(x.scalar_type()), x, gate.get(), *c_proj, call.trace);
}

}  // namespace tost
