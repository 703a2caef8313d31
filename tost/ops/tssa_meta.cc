// Shapes without data, for torch.compile, export and FakeTensor; sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_inner.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

TssaForwardResult tssa_forward_meta(const at::Tensor& w, const at::Tensor& temp) {
  check_tssa_inputs(w, temp);
  const auto batch = w.sym_size(0), tokens = w.sym_size(1), channels = w.sym_size(2),
             heads = temp.sym_size(0);
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  return {at::empty_symint({batch, tokens, channels}, w.options()),
          at::empty_symint({batch, heads, tokens}, wide), at::empty_symint({batch, channels}, wide),
          at::empty_symint({batch, channels}, wide), at::empty_symint({batch, heads}, wide)};
}

std::tuple<at::Tensor, at::Tensor> tssa_meta(const at::Tensor& w, const at::Tensor& temp) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_meta(w, temp);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_meta(const std::optional<at::Tensor>&,
                                                      const std::optional<at::Tensor>&,
                                                      const at::Tensor& w, const at::Tensor& temp,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const at::Tensor&, const at::Tensor&) {
  check_tssa_inputs(w, temp);
  return {at::empty_symint(w.sym_sizes(), w.options()),
          at::empty_symint(temp.sym_sizes(), temp.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_meta(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  return {at::empty_symint(w.sym_sizes(), w.options()),
          at::empty_symint({w.sym_size(0), temp.sym_size(0), w.sym_size(1)}, wide),
          at::empty_symint({w.sym_size(0), 2 * w.sym_size(2) + temp.sym_size(0)},
                           w.options().dtype(at::kDouble))};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Meta, m) {
  m.impl("tssa", tssa_meta);
  m.impl("tssa_causal", tssa_causal_meta);
  m.impl("tssa_forward", tssa_forward_meta);
  m.impl("tssa_backward", tssa_backward_meta);
}

}  // namespace tost
