#include "tost/ops/tssa_double.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

// [B, C] -> [B, H, 1, P]
at::Tensor per_channel(const at::Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), heads, 1, x.size(1) / heads});
}

// x with zeros at the padding; its tokens are dimension 1 or 2 of three.
at::Tensor own_alone(const at::Tensor& x, const std::optional<at::Tensor>& lengths,
                     int64_t token_dim = 1) {
  if (!given(lengths)) return x;
  const auto padding = own_tokens(*lengths, x.size(token_dim)).logical_not();
  return x.masked_fill(padding.unsqueeze(token_dim == 1 ? 2 : 1), 0);
}

}  // namespace

TssaForwardResult tssa_forward_double(const at::Tensor& w, const at::Tensor& temp,
                                      const std::optional<at::Tensor>& lengths) {
  const auto split = split_by_head(own_alone(w, lengths), temp.size(0));
  const auto squares = split.square();
  const auto energy = squares.sum(-2, /*keepdim=*/true);
  const auto logits = (split / energy.sqrt().clamp_min(1e-12)).square().sum(-1);
  const auto pi =
      own_alone(at::softmax(logits * temp.to(w.scalar_type()), 1), lengths, 2).contiguous();
  const auto pi_sum = pi.sum(-1);
  const auto weights = pi / (pi_sum + 1e-8).unsqueeze(-1);
  const auto moment = (weights.unsqueeze(-1) * squares).sum(-2, /*keepdim=*/true);
  const auto y = -(split * pi.unsqueeze(-1)) / (1 + moment);
  const int64_t batch = w.size(0), channels = w.size(2);
  return {merge_by_head(y), pi, energy.reshape({batch, channels}),
          moment.reshape({batch, channels}), pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_double(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const std::optional<at::Tensor>& lengths) {
  const int64_t heads = temp.size(0);
  const auto x = split_by_head(own_alone(w, lengths), heads);
  const auto g =
      split_by_head(grad_y.has_value() ? own_alone(*grad_y, lengths) : at::zeros_like(w), heads);
  const auto p = pi.unsqueeze(-1);
  const auto s = per_channel(moment, heads);
  const auto damping = 1 / (1 + s);
  const auto inv_norm = 1 / per_channel(energy, heads).sqrt().clamp_min(1e-12);
  const auto clamped = per_channel(energy, heads).sqrt() < 1e-12;
  const auto moment_grad = damping.square() * (g * x * p).sum(-2, /*keepdim=*/true) /
                           (pi_sum + 1e-8).view({w.size(0), heads, 1, 1});
  auto pi_grad = (moment_grad * (x.square() - s) - g * x * damping).sum(-1);
  if (grad_pi.has_value()) pi_grad = pi_grad + own_alone(*grad_pi, lengths, 2);
  const auto logit_grad = pi * (pi_grad - (pi * pi_grad).sum(1, /*keepdim=*/true));
  const auto v = x * inv_norm;
  const auto grad_temp =
      (logit_grad * v.square().sum(-1)).sum(at::IntArrayRef({0, 2})).unsqueeze(-1);
  const auto a_grad = (logit_grad * temp.to(w.scalar_type())).unsqueeze(-1);
  const auto pull = at::where(clamped, 0.0, (a_grad * v.square()).sum(-2, /*keepdim=*/true));
  const auto grad_w = p * (2 * moment_grad * x - g * damping) + 2 * v * inv_norm * (a_grad - pull);
  return {merge_by_head(grad_w), grad_temp.to(temp.scalar_type())};
}

}  // namespace tost
