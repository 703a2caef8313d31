#include "tost/ops/tssa_plain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/softmax.h>

#include "tost/ops/tssa_check.h"

namespace tost {

at::ScalarType tssa_accumulation_dtype(at::ScalarType w) {
  return w == at::kDouble ? at::kDouble : at::kFloat;
}

std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp) {
  check_tssa_inputs(w, temp);
  const auto dtype = tssa_accumulation_dtype(w.scalar_type());
  const auto heads = temp.sym_size(0);
  const auto width = w.sym_size(2) / heads;
  const auto split =
      w.to(dtype).view_symint({w.sym_size(0), w.sym_size(1), heads, width}).transpose(1, 2);
  const auto norm = split.norm(2, at::IntArrayRef{-2}, /*keepdim=*/true).clamp_min(1e-12);
  const auto logits = (split / norm).pow(2).sum(-1);                                // [B, H, N]
  const auto pi = at::softmax(logits * temp.to(dtype), 1);                          // over heads
  const auto weights = (pi / (pi.sum(-1, /*keepdim=*/true) + 1e-8)).unsqueeze(-2);  // [B, H, 1, N]
  const auto moment = at::matmul(weights, split.pow(2));                            // [B, H, 1, P]
  const auto damping = at::reciprocal(1 + moment);
  const auto y = -((split * pi.unsqueeze(-1)) * damping);
  return {y.transpose(1, 2).reshape_symint(w.sym_sizes()).to(w.scalar_type()), pi};
}

at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads) {
  check_tssa_heads(w, heads);
  const auto wide = w.to(tssa_accumulation_dtype(w.scalar_type()));
  // Every weight is 1/N up to the 1e-8 that guards N = 0.
  const auto moment = wide.pow(2).sum(1, /*keepdim=*/true) / (w.size(1) + 1e-8 * heads);
  return (wide / (-heads * (1 + moment))).to(w.scalar_type());
}

}  // namespace tost
