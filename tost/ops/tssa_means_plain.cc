// TSSA with its additions in plain ATen: the definition that the kernels are tested against.
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_means.h"
#include "tost/ops/tssa_plain.h"

namespace tost {

std::tuple<at::Tensor, at::Tensor> tssa_means_plain(const at::Tensor& w, const at::Tensor& temp,
                                                    const std::optional<at::Tensor>& lengths,
                                                    const TssaAdditions& additions) {
  check_tssa_inputs(w, temp, lengths);
  const auto dtype = tssa_accumulation_dtype(w.scalar_type());
  const int64_t batch = w.size(0), tokens = w.size(1), heads = temp.size(0);
  const int64_t width = w.size(2) / heads;
  auto split = w.to(dtype).view({batch, tokens, heads, width}).transpose(1, 2);  // [B, H, N, P]
  at::Tensor padding;                                                            // [B, 1, N]
  if (given(lengths)) {
    padding = own_tokens(*lengths, tokens).logical_not().unsqueeze(1);
    split = split.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto norm = split.norm(2, at::IntArrayRef{-2}, /*keepdim=*/true).clamp_min(1e-12);
  auto logits = (split / norm).pow(2).sum(-1) * temp.to(dtype);  // [B, H, N]
  if (additions.length_free) {
    logits = given(lengths) ? logits * (lengths->to(dtype) / double(width)).view({-1, 1, 1})
                            : logits * (double(tokens) / double(width));
  }
  auto pi = at::softmax(logits, 1);  // over heads
  if (padding.defined()) pi = pi.masked_fill(padding, 0);
  const auto weights = (pi / (pi.sum(-1, /*keepdim=*/true) + 1e-8)).unsqueeze(-2);  // [B, H, 1, N]
  const auto share = pi.unsqueeze(-1);
  auto y = -(split * share) / (1 + at::matmul(weights, split.pow(2)));
  if (additions.means) y = y + double(heads) * share * at::matmul(weights, split);
  return {y.transpose(1, 2).reshape(w.sizes()).to(w.scalar_type()), pi};
}

}  // namespace tost
