// Shapes without data, for torch.compile, export and FakeTensor; sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "tost/kernels/tssa_causal.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_inner.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

TssaForwardResult tssa_forward_meta(const at::Tensor& w, const at::Tensor& temp,
                                    const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto batch = w.sym_size(0), tokens = w.sym_size(1), channels = w.sym_size(2),
             heads = temp.sym_size(0);
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  return {at::empty_symint({batch, tokens, channels}, w.options()),
          at::empty_symint({batch, heads, tokens}, wide), at::empty_symint({batch, channels}, wide),
          at::empty_symint({batch, channels}, wide), at::empty_symint({batch, heads}, wide)};
}

std::tuple<at::Tensor, at::Tensor> tssa_meta(const at::Tensor& w, const at::Tensor& temp,
                                             const std::optional<at::Tensor>& lengths) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_meta(w, temp, lengths);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_meta(const std::optional<at::Tensor>&,
                                                      const std::optional<at::Tensor>&,
                                                      const at::Tensor& w, const at::Tensor& temp,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w, temp, lengths);
  return {at::empty_symint(w.sym_sizes(), w.options()),
          at::empty_symint(temp.sym_sizes(), temp.options())};
}

CausalForwardResult tssa_causal_forward_meta(const at::Tensor& w, const at::Tensor& temp,
                                             const at::Tensor& denom_bias,
                                             const std::optional<at::Tensor>& state,
                                             c10::SymInt position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  const auto batch = w.sym_size(0), tokens = w.sym_size(1), channels = w.sym_size(2),
             heads = temp.sym_size(0);
  const auto chunks = (tokens + (kernels::kCausalChunk - 1)) / kernels::kCausalChunk;
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  const auto widest = w.options().dtype(at::kDouble);
  return {at::empty_symint({batch, tokens, channels}, w.options()),
          at::empty_symint({batch, heads, tokens}, wide),
          at::empty_symint({batch, 2 * channels + heads}, widest),
          at::empty_symint({batch, chunks, 2 * channels}, wide),
          at::empty_symint({batch, chunks, heads}, widest)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_meta(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, c10::SymInt position) {
  const auto [y, pi, after, carry, pi_carry] =
      tssa_causal_forward_meta(w, temp, denom_bias, state, position);
  return {y, pi, after};
}

CausalGradients tssa_causal_backward_meta(const std::optional<at::Tensor>&,
                                          const std::optional<at::Tensor>&, const at::Tensor& w,
                                          const at::Tensor& temp, const at::Tensor& denom_bias,
                                          c10::SymInt position, const at::Tensor&,
                                          const at::Tensor&, const at::Tensor&) {
  check_tssa_causal_inputs(w, temp, denom_bias, std::nullopt, position);
  const auto like = [](const at::Tensor& x) {
    return at::empty_symint(x.sym_sizes(), x.options());
  };
  return {like(w), like(temp), like(denom_bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Meta, m) {
  m.impl("tssa", tssa_meta);
  m.impl("tssa_forward", tssa_forward_meta);
  m.impl("tssa_backward", tssa_backward_meta);
  m.impl("tssa_causal", tssa_causal_meta);
  m.impl("tssa_causal_forward", tssa_causal_forward_meta);
  m.impl("tssa_causal_backward", tssa_causal_backward_meta);
}

}  // namespace tost
