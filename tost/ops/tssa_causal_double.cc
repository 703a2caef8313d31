// Forward and backward in plain ATen for float64, by the same equations as the kernels.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "tost/kernels/tssa_causal.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_causal_plain.h"
#include "tost/ops/tssa_double.h"

namespace tost {
namespace {

// The sums of the rows [B, T, n] before each chunk, [B, chunks, n].
at::Tensor before_chunks(const at::Tensor& rows) {
  const auto before = at::constant_pad_nd(at::cumsum(rows, 1), {0, 0, 1, 0});
  return before.slice(1, 0, rows.size(1), kernels::kCausalChunk);
}

// Over tokens u >= t; tokens in dimension 2.
at::Tensor reverse_sum(const at::Tensor& x) {
  return at::cumsum(x.flip(2), 2).flip(2);
}

// The sums before the first chunk, [B, H, 1, P].
at::Tensor first_sums(const at::Tensor& sums, int64_t heads) {
  return split_by_head(sums.narrow(1, 0, 1), heads);
}

}  // namespace

CausalForwardResult tssa_causal_forward_double(const at::Tensor& w, const at::Tensor& temp,
                                               const at::Tensor& denom_bias,
                                               const std::optional<at::Tensor>& state,
                                               int64_t position) {
  const auto [y, pi, after] = tssa_causal_plain(w, temp, denom_bias, state, position);
  const int64_t channels = w.size(2);
  const auto squares = w.square();
  const auto weighted = merge_by_head(split_by_head(squares, temp.size(0)) * pi.unsqueeze(-1));
  auto carry = before_chunks(at::cat({squares, weighted}, 2));
  auto pi_carry = before_chunks(pi.transpose(1, 2));
  if (state.has_value()) {
    const auto before = state->unsqueeze(1);
    carry = carry + before.narrow(2, 0, 2 * channels);
    pi_carry = pi_carry + before.narrow(2, 2 * channels, temp.size(0));
  }
  return {y, pi.contiguous(), after, carry.contiguous(), pi_carry.contiguous()};
}

CausalGradients tssa_causal_backward_double(const std::optional<at::Tensor>& grad_y,
                                            const std::optional<at::Tensor>& grad_pi,
                                            const at::Tensor& w, const at::Tensor& temp,
                                            const at::Tensor& denom_bias, int64_t position,
                                            const at::Tensor& pi, const at::Tensor& carry,
                                            const at::Tensor& pi_carry) {
  auto grad_bias = at::zeros_like(denom_bias, at::MemoryFormat::Contiguous);
  if (w.numel() == 0) return {at::zeros_like(w), at::zeros_like(temp), grad_bias};
  const int64_t heads = temp.size(0), tokens = w.size(1), channels = w.size(2);
  const int64_t width = channels / heads;
  const auto x = split_by_head(w, heads);
  const auto g = split_by_head(grad_y.has_value() ? *grad_y : at::zeros_like(w), heads);
  const auto p = pi.unsqueeze(-1);
  const auto q = x.square();
  const auto energy = at::cumsum(q, 2) + first_sums(carry.narrow(2, 0, channels), heads);
  const auto inverse = 1 / energy.clamp_min(1e-12);
  const auto pi_sum =
      (at::cumsum(pi, 2) + pi_carry.select(1, 0).unsqueeze(-1) + 1e-8).unsqueeze(-1);
  const auto moment =
      (at::cumsum(p * q, 2) + first_sums(carry.narrow(2, channels, channels), heads)) / pi_sum;
  const auto damping = 1 / (1 + moment);

  const auto moment_grad = damping.square() * g * x * p / pi_sum;  // dS / N'
  const auto raised = reverse_sum(moment_grad);
  auto pi_grad =
      (q * raised - g * x * damping).sum(-1) - reverse_sum((moment_grad * moment).sum(-1));
  if (grad_pi.has_value()) pi_grad = pi_grad + *grad_pi;
  const auto logit_grad = pi * (pi_grad - (pi * pi_grad).sum(1, /*keepdim=*/true));
  const auto a_grad = (logit_grad * temp.to(w.scalar_type())).unsqueeze(-1);
  const auto pull = reverse_sum(at::where(energy < 1e-12, 0.0, a_grad * q * inverse.square()));
  const auto grad_w = p * (2 * x * raised - g * damping) + 2 * x * (a_grad * inverse - pull);

  auto temp_grad = (logit_grad * (q * inverse).sum(-1)).sum(at::IntArrayRef({0, 2}));
  const int64_t begin = std::min(position, denom_bias.size(1));
  const int64_t biased = std::min(tokens, denom_bias.size(1) - begin);
  const auto bias = denom_bias.narrow(1, begin, biased).squeeze(-1).to(w.scalar_type());
  const auto summed = width * logit_grad.narrow(2, 0, biased).sum(0);  // [H, biased]
  temp_grad = temp_grad + (summed * bias).sum(1);
  grad_bias.narrow(1, begin, biased).copy_((summed * temp.to(w.scalar_type())).unsqueeze(-1));
  return {merge_by_head(grad_w), temp_grad.unsqueeze(-1).to(temp.scalar_type()), grad_bias};
}

}  // namespace tost
