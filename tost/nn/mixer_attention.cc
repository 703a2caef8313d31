#include "tost/nn/mixer_attention.h"

#include <algorithm>
#include <cmath>

#include "tost/ops/plain.h"

namespace tost {

namespace {

// Scales to unit length along `dim`, with norms of at least 1e-12 as in the official code.
torch::Tensor normalized(const torch::Tensor& x, int64_t dim) {
  return x / x.norm(2, dim, /*keepdim=*/true).clamp_min(1e-12);
}

// Sets x [B, H, N, P] to zero at the padding.
torch::Tensor without_padding(const torch::Tensor& x, const torch::Tensor& valid) {
  if (!valid.defined()) return x;
  return x.masked_fill(valid.logical_not().view({valid.size(0), 1, valid.size(1), 1}), 0);
}

// The weights [B, R, N] that average n tokens over m = min(R, n) runs, as adaptive pooling does.
// Run r is [floor(r n / m), ceil((r + 1) n / m)); rows from m on are zero. `n` and `runs` (m) [B,
// 1, 1] are exact in float64.
Tensor pooling_weights(const Tensor& n, const Tensor& runs, int64_t most, int64_t tokens,
                       torch::ScalarType dtype) {
  const auto m = runs.clamp_min(1);  // of no tokens there is no run
  const auto run = torch::arange(most, n.options()).view({1, most, 1});
  const auto first = torch::floor(run * n / m), last = torch::ceil((run + 1) * n / m);
  const auto token = torch::arange(tokens, n.options());
  const auto inside = token.ge(first).logical_and(token.lt(last)).logical_and(run.lt(runs));
  return inside.to(dtype) / (last - first).clamp_min(1).to(dtype);
}

// Computes softmax(w wᵀ / √P) w over the tokens that `valid` [B, 1, 1, N], if defined, marks.
Tensor attend(const Tensor& w, const Tensor& valid) {
  const auto mask = valid.defined() ? std::optional<Tensor>(valid) : std::nullopt;
  return at::scaled_dot_product_attention(w, w, w, mask);
}

// Marks valid tokens as [B, 1, 1, N]; undefined for undefined lengths.
Tensor valid_columns(const Tensor& lengths, int64_t tokens) {
  if (!lengths.defined()) return {};
  return valid_tokens(lengths, tokens).unsqueeze(1).unsqueeze(1);
}

}  // namespace

AttentionMixer::AttentionMixer(const MixerConfig& config) : heads_(config.heads) {
  qkv =
      register_module("qkv", std::make_shared<Linear>(config.dim, 3 * config.dim, config.qkv_bias));
  proj = register_module("proj", std::make_shared<Linear>(config.dim, config.dim, true));
}

torch::Tensor AttentionMixer::forward(const torch::Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2);
  auto parts =
      qkv->forward(x).view({batch, tokens, 3, heads_, dim / heads_}).permute({2, 0, 3, 1, 4});
  const auto valid = call.lengths.defined() ? valid_tokens(call.lengths, tokens) : torch::Tensor();
  auto y = mix(parts[0], parts[1], parts[2], valid);
  return proj->forward(y.transpose(1, 2).reshape({batch, tokens, dim}));
}

torch::Tensor SoftmaxMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& valid) {
  if (!valid.defined()) return at::scaled_dot_product_attention(q, k, v);
  return at::scaled_dot_product_attention(q, k, v,
                                          valid.view({valid.size(0), 1, 1, valid.size(1)}));
}

CrossCovarianceMixer::CrossCovarianceMixer(const MixerConfig& config) : AttentionMixer(config) {
  temperature = register_parameter("temperature", torch::ones({config.heads, 1, 1}));
}

torch::Tensor CrossCovarianceMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                        const torch::Tensor& v, const torch::Tensor& valid) {
  // Computes scores[i, j] = q̂ᵢ · k̂ⱼ over tokens, [B, H, P, P], by which feature i of the output
  // averages features of v.
  auto scores = torch::matmul(normalized(without_padding(q, valid), 2).transpose(2, 3),
                              normalized(without_padding(k, valid), 2)) *
                temperature;
  return torch::matmul(v, scores.softmax(-1).transpose(2, 3));
}

torch::Tensor LinearAttentionMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                        const torch::Tensor& v, const torch::Tensor& valid) {
  auto phi_q = torch::elu(q) + 1, phi_k = without_padding(torch::elu(k) + 1, valid);
  // Uses means instead of sums over tokens, so that float16 cannot overflow; the ratio is the same.
  auto moments = torch::matmul((phi_k / k.size(2)).transpose(2, 3), v);  // [B, H, P, P]
  auto mass =
      torch::matmul(phi_q, phi_k.mean(2, /*keepdim=*/true).transpose(2, 3));  // [B, H, N, 1]
  return torch::matmul(phi_q, moments) / mass;
}

using torch::Tensor;

SubspaceMixer::SubspaceMixer(const MixerConfig& config, const std::string& name)
    : heads_(config.heads) {
  in_ = register_module(name, std::make_shared<Linear>(config.dim, config.dim, config.qkv_bias));
  to_out_ = register_module("to_out", std::make_shared<torch::nn::Module>("to_out"));
  out_ = to_out_->register_module("0", std::make_shared<Linear>(config.dim, config.dim, true));
}

Tensor SubspaceMixer::forward(const Tensor& x, const MixerCall& call) {
  const auto w = in_->forward(x).view({x.size(0), x.size(1), heads_, x.size(2) / heads_});
  return out_->forward(mix(w.transpose(1, 2), call.lengths).transpose(1, 2).reshape(x.sizes()));
}

Tensor MssaMixer::mix(const Tensor& w, const Tensor& lengths) {
  return attend(w, valid_columns(lengths, w.size(2)));
}

CbsaMixer::CbsaMixer(const MixerConfig& config) : SubspaceMixer(config, "proj") {
  step_x = register_parameter("step_x", torch::empty({config.heads, 1, 1}));
  step_rep = register_parameter("step_rep", torch::empty({config.heads, 1, 1}));
}

void CbsaMixer::draw_weights() {
  const torch::NoGradGuard no_grad;
  step_x.normal_();
  step_rep.normal_();
}

Tensor CbsaMixer::mix(const Tensor& w, const Tensor& lengths) {
  const int64_t tokens = w.size(2), most = std::min(kRepresentatives, tokens);
  const auto n = lengths.defined()
                     ? lengths.view({-1, 1, 1}).to(torch::kDouble)
                     : torch::full({1, 1, 1}, double(tokens), w.options().dtype(torch::kDouble));
  const auto runs = n.clamp_max(most);
  const auto pool = pooling_weights(n, runs, most, tokens, w.scalar_type()).unsqueeze(1);
  const auto valid = valid_columns(lengths, tokens);
  Tensor values = w, valid_rep;  // which representatives there are [B, 1, 1, R]
  if (valid.defined()) {
    values = w.masked_fill(valid.logical_not().transpose(2, 3), 0);
    valid_rep = torch::arange(most, n.options()).lt(runs).unsqueeze(1);
  }
  const auto start = torch::matmul(pool, values);  // [B, H, R, P]
  auto scores = torch::matmul(start, values.transpose(2, 3)) / std::sqrt(double(w.size(3)));
  if (valid.defined()) scores = scores.masked_fill(valid.logical_not(), -INFINITY);
  auto contracted = scores.softmax(-1);  // [B, H, R, N]
  const auto rep = start + step_rep * torch::matmul(contracted, values);
  if (valid.defined()) {
    contracted = contracted.masked_fill(valid_rep.logical_not().transpose(2, 3), 0);
  }
  return step_x * torch::matmul(contracted.transpose(2, 3), attend(rep, valid_rep));
}

}  // namespace tost
