#include "tost/nn/mixer_subspace.h"

#include <algorithm>
#include <cmath>

#include "tost/ops/plain.h"

namespace tost {

using torch::Tensor;

namespace {

// The weights of adaptive pooling [B, R, N] to m = min(R, n) runs of n tokens: run r is
// [floor(r n / m), ceil((r + 1) n / m)), and rows from m on are zero. `n` and `runs` (m) [B, 1, 1]
// are float64, which holds them exactly.
Tensor pooling_weights(const Tensor& n, const Tensor& runs, int64_t most, int64_t tokens,
                       torch::ScalarType dtype) {
  const auto m = runs.clamp_min(1);  // of no tokens there is no run
  const auto run = torch::arange(most, n.options()).view({1, most, 1});
  const auto first = torch::floor(run * n / m), last = torch::ceil((run + 1) * n / m);
  const auto token = torch::arange(tokens, n.options());
  const auto inside = token.ge(first).logical_and(token.lt(last)).logical_and(run.lt(runs));
  return inside.to(dtype) / (last - first).clamp_min(1).to(dtype);
}

// softmax(w wᵀ / √P) w over the tokens that `own` [B, 1, 1, N] marks; undefined: over all.
Tensor attend(const Tensor& w, const Tensor& own) {
  const auto mask = own.defined() ? std::optional<Tensor>(own) : std::nullopt;
  return at::scaled_dot_product_attention(w, w, w, mask);
}

// [B, 1, 1, N]; undefined for undefined lengths.
Tensor own_columns(const Tensor& lengths, int64_t tokens) {
  if (!lengths.defined()) return {};
  return own_tokens(lengths, tokens).unsqueeze(1).unsqueeze(1);
}

}  // namespace

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
  return attend(w, own_columns(lengths, w.size(2)));
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
  const auto own = own_columns(lengths, tokens);
  Tensor values = w, own_rep;  // which representatives there are [B, 1, 1, R]
  if (own.defined()) {
    values = w.masked_fill(own.logical_not().transpose(2, 3), 0);
    own_rep = torch::arange(most, n.options()).lt(runs).unsqueeze(1);
  }
  const auto start = torch::matmul(pool, values);  // [B, H, R, P]
  auto scores = torch::matmul(start, values.transpose(2, 3)) / std::sqrt(double(w.size(3)));
  if (own.defined()) scores = scores.masked_fill(own.logical_not(), -INFINITY);
  auto contracted = scores.softmax(-1);  // [B, H, R, N]
  const auto rep = start + step_rep * torch::matmul(contracted, values);
  if (own.defined()) {
    contracted = contracted.masked_fill(own_rep.logical_not().transpose(2, 3), 0);
  }
  return step_x * torch::matmul(contracted.transpose(2, 3), attend(rep, own_rep));
}

}  // namespace tost
