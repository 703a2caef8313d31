#include "tost/nn/mixer_tssa.h"

#include <cmath>

#include "tost/nn/precision.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/plain.h"
#include "tost/ops/tssa.h"

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

torch::Tensor TssaMixer::between(const torch::Tensor& w, const MixerCall& call) {
  const WithoutAutocast no_autocast;
  const TokenSums* sums = TokenSumsScope::current();
  // Uses the plain form for divided tokens, because the kernels sum only over local tokens.
  const auto [y, pi] =
      sums == nullptr ? tssa(w, temp, call.lengths) : tssa_plain_part(w, temp, call.lengths, sums);
  if (call.trace != nullptr) *call.trace = {w, pi};
  return y;
}

torch::Tensor UniformMixer::between(const torch::Tensor& w, const MixerCall& call) {
  if (call.trace != nullptr) {
    auto pi = torch::full({w.size(0), heads_, w.size(1)}, 1.0 / heads_, w.options());
    if (call.lengths.defined()) pi = pi * valid_tokens(call.lengths, w.size(1)).unsqueeze(1);
    *call.trace = {w, pi};
  }
  return tssa_uniform(w, heads_, call.lengths, TokenSumsScope::current());
}

torch::Tensor NoMixer::between(const torch::Tensor& w, const MixerCall& call) {
  if (call.trace != nullptr) call.trace->w = w;
  return w;
}

using torch::Tensor;

namespace {

// Reshapes U [H, C, P] to one matrix [C, H P].
Tensor side_by_side(const Tensor& u) {
  return u.transpose(0, 1).flatten(1);
}

}  // namespace

TssaTiedMixer::TssaTiedMixer(const MixerConfig& config) {
  const int64_t width = config.dim / config.heads;
  basis = register_parameter("basis", torch::empty({config.heads, config.dim, width}));
  log_eta = register_parameter("log_eta", torch::full({1}, std::log(double(width))));
  step = register_parameter("step", torch::ones({1}));
}

void TssaTiedMixer::draw_weights() {
  const torch::NoGradGuard no_grad;
  basis.normal_(0, 0.02);
}

Tensor TssaTiedMixer::subspaces() const {
  const auto [q, r] = torch::linalg_qr(basis);
  const auto diagonal = r.diagonal(0, 1, 2).detach();
  return q * torch::where(diagonal < 0, -1, 1).to(q.scalar_type()).unsqueeze(1);
}

Tensor TssaTiedMixer::project(const Tensor& x) const {
  return torch::matmul(x, side_by_side(subspaces()));
}

Tensor TssaTiedMixer::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = basis.size(0);
  const auto u = side_by_side(subspaces());
  const auto w = torch::matmul(x, u);
  auto split = w.to(tssa_accumulation_dtype(w.scalar_type()))
                   .view({batch, tokens, heads, -1})
                   .transpose(1, 2);  // [B, H, N, P]
  Tensor padding;                     // [B, 1, N]
  if (call.lengths.defined()) {
    padding = valid_tokens(call.lengths, tokens).logical_not().unsqueeze(1);
    split = split.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto squares = split.square();
  auto pi = (squares.sum(-1) * (0.5 * (-log_eta).exp())).softmax(1);  // [B, H, N]
  if (padding.defined()) pi = pi.masked_fill(padding, 0);
  const auto count = pi.sum(-1, /*keepdim=*/true).clamp_min(1e-8);
  const auto moment = torch::matmul((pi / count).unsqueeze(2), squares);  // [B, H, 1, P]
  const auto y = split * pi.unsqueeze(-1) * (-step / (1 + moment));
  if (call.trace != nullptr) *call.trace = {w, pi};
  const auto merged = y.transpose(1, 2).reshape(w.sizes()).to(w.scalar_type());
  return torch::matmul(merged, u.t());
}

}  // namespace tost
