#include "tost/ops/tssa_plain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "tost/ops/tssa_check.h"

namespace tost {

at::ScalarType tssa_accumulation_dtype(at::ScalarType w) {
  return w == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor own_tokens(const at::Tensor& lengths, const c10::SymInt& tokens) {
  return at::arange(tokens, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

namespace {

// Over the tokens of split [B, H, N, P] and of the other places: [B, H, 1, P].
at::Tensor norm_over_tokens(const at::Tensor& split, const TokenSums* sums) {
  const auto energy = split.pow(2).sum(-2, /*keepdim=*/true);
  // The square root has no slope at 0, where the clamp on the norm lets none through.
  if (sums != nullptr) return sums->total(energy).clamp_min(1e-24).sqrt();
  // A channel of zeros adds nothing to the logits, and nothing to their derivatives of any order.
  const double infinity = std::numeric_limits<double>::infinity();
  return energy.masked_fill(energy.eq(0), infinity).sqrt();
}

// The means of split^2 weighted by pi [B, H, N]: [B, H, 1, P].
at::Tensor second_moment(const at::Tensor& split, const at::Tensor& pi, const TokenSums* sums) {
  const auto pi_sum = pi.sum(-1, /*keepdim=*/true);
  if (sums == nullptr) {
    return at::matmul((pi / (pi_sum + 1e-8)).unsqueeze(-2), split.pow(2));
  }
  const auto moment = at::matmul(pi.unsqueeze(-2), split.pow(2));
  const auto all = sums->total(at::cat({pi_sum.unsqueeze(-1), moment}, -1));
  return all.narrow(-1, 1, split.size(-1)) / (all.narrow(-1, 0, 1) + 1e-8);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths) {
  return tssa_plain_part(w, temp, lengths, nullptr);
}

std::tuple<at::Tensor, at::Tensor> tssa_plain_part(const at::Tensor& w, const at::Tensor& temp,
                                                   const std::optional<at::Tensor>& lengths,
                                                   const TokenSums* sums) {
  check_tssa_inputs(w, temp, lengths);
  const auto dtype = tssa_accumulation_dtype(w.scalar_type());
  const auto heads = temp.sym_size(0);
  const auto width = w.sym_size(2) / heads;
  auto split =
      w.to(dtype).view_symint({w.sym_size(0), w.sym_size(1), heads, width}).transpose(1, 2);
  at::Tensor padding;  // [B, 1, N]
  if (given(lengths)) {
    padding = own_tokens(*lengths, w.sym_size(1)).logical_not().unsqueeze(1);
    split = split.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto norm = norm_over_tokens(split, sums).clamp_min(1e-12);
  const auto logits = (split / norm).pow(2).sum(-1);  // [B, H, N]
  auto pi = at::softmax(logits * temp.to(dtype), 1);  // over heads
  if (padding.defined()) pi = pi.masked_fill(padding, 0);
  const auto damping = at::reciprocal(1 + second_moment(split, pi, sums));
  const auto y = -((split * pi.unsqueeze(-1)) * damping);
  return {y.transpose(1, 2).reshape_symint(w.sym_sizes()).to(w.scalar_type()), pi};
}

at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads,
                        const std::optional<at::Tensor>& lengths, const TokenSums* sums) {
  check_tssa_heads(w, heads);
  check_tssa_lengths(w, lengths);
  auto wide = w.to(tssa_accumulation_dtype(w.scalar_type()));
  if (given(lengths)) {
    wide = wide.masked_fill(own_tokens(*lengths, w.size(1)).logical_not().unsqueeze(-1), 0);
  }
  // Every weight is 1/N up to the 1e-8 that guards N = 0.
  const auto sum = wide.pow(2).sum(1, /*keepdim=*/true);
  const double guard = 1e-8 * double(heads);
  if (sums != nullptr) {
    const auto count = given(lengths) ? lengths->to(sum.scalar_type())
                                      : at::full({w.size(0)}, w.size(1), sum.options());
    const auto all = sums->total(at::cat({sum, count.view({-1, 1, 1})}, 2));
    const auto moment = all.narrow(2, 0, w.size(2)) / (all.narrow(2, w.size(2), 1) + guard);
    return (wide / (-heads * (1 + moment))).to(w.scalar_type());
  }
  const auto moment = given(lengths)
                          ? sum / (lengths->view({-1, 1, 1}).to(wide.scalar_type()) + guard)
                          : sum / (double(w.size(1)) + guard);
  return (wide / (-heads * (1 + moment))).to(w.scalar_type());
}

}  // namespace tost
