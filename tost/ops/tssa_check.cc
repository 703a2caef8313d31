#include "tost/ops/tssa_check.h"

#include "tost/base/error.h"

namespace tost {

void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads) {
  if (w.dim() != 3) {
    fail_usage("tssa: w must be [batch, tokens, channels], but has ", w.dim(), " dimensions.");
  }
  const auto dtype = w.scalar_type();
  // Compilers ask for shapes with a meta tensor in place of a GPU's.
  const bool half = dtype == at::kHalf && (w.is_cuda() || w.is_meta());
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kDouble && !half) {
    fail_usage("tssa: w must be float32, bfloat16 or float64, but is ", dtype, ".");
  }
  const auto channels = w.sym_size(2);
  if (heads < 1 || channels < 1 || channels % heads != 0) {
    fail_usage("tssa: the ", channels, " channels of w cannot be split over ", heads,
               " heads; choose a number of heads that divides the channels.");
  }
}

void check_tssa_lengths(const at::Tensor& w, const std::optional<at::Tensor>& lengths) {
  if (!given(lengths)) return;
  if (lengths->dim() != 1 || lengths->sym_size(0) != w.sym_size(0)) {
    fail_usage("tssa: lengths must be [batch] = [", w.sym_size(0), "], but is ",
               lengths->sym_sizes(), ".");
  }
  if (lengths->scalar_type() != at::kLong) {
    fail_usage("tssa: lengths must be int64, but is ", lengths->scalar_type(), ".");
  }
  if (lengths->device() != w.device()) {
    fail_usage("tssa: w is on ", w.device(), " but lengths on ", lengths->device(),
               "; move one of them.");
  }
}

at::Tensor lengths_in_range(const std::optional<at::Tensor>& lengths, int64_t tokens) {
  if (!given(lengths)) return {};
  const auto adjacent = lengths->contiguous();
  const auto* values = adjacent.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < adjacent.numel(); ++i) {
    if (values[i] >= 0 && values[i] <= tokens) continue;
    fail_usage("tssa: lengths[", i, "] is ", values[i], "; it must be from 0 to the ", tokens,
               " tokens of w.");
  }
  return adjacent;
}

void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp,
                       const std::optional<at::Tensor>& lengths) {
  if (temp.dim() != 2 || temp.sym_size(1) != 1) {
    fail_usage("tssa: temp must be [heads, 1], but is ", temp.sym_sizes(), ".");
  }
  if (!temp.is_floating_point()) {
    fail_usage("tssa: temp must be of a floating-point dtype, but is ", temp.scalar_type(), ".");
  }
  if (temp.device() != w.device()) {
    fail_usage("tssa: w is on ", w.device(), " but temp on ", temp.device(), "; move one of them.");
  }
  check_tssa_heads(w, temp.sym_size(0));
  check_tssa_lengths(w, lengths);
}

void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                              const c10::SymInt& position) {
  check_tssa_inputs(w, temp);
  const auto heads = temp.sym_size(0);
  if (denom_bias.dim() != 3 || denom_bias.sym_size(0) != heads || denom_bias.sym_size(2) != 1) {
    fail_usage("tssa_causal: denom_bias must be [heads, positions, 1] with ", heads,
               " heads, but is ", denom_bias.sym_sizes(), ".");
  }
  if (!denom_bias.is_floating_point()) {
    fail_usage("tssa_causal: denom_bias must be of a floating-point dtype, but is ",
               denom_bias.scalar_type(), ".");
  }
  if (denom_bias.device() != w.device()) {
    fail_usage("tssa_causal: w is on ", w.device(), " but denom_bias on ", denom_bias.device(),
               "; move one of them.");
  }
  if (position < 0) {
    fail_usage("tssa_causal: position is ", position, "; it counts the tokens before w.");
  }
  if (!state.has_value()) return;
  const auto numbers = 2 * w.sym_size(2) + heads;
  if (state->dim() != 2 || state->sym_size(0) != w.sym_size(0) || state->sym_size(1) != numbers) {
    fail_usage("tssa_causal: state must be [batch, 2 channels + heads] = [", w.sym_size(0), ", ",
               numbers, "], but is ", state->sym_sizes(), ".");
  }
  if (state->scalar_type() != at::kDouble) {
    fail_usage("tssa_causal: state must be float64, but is ", state->scalar_type(), ".");
  }
  if (state->device() != w.device()) {
    fail_usage("tssa_causal: w is on ", w.device(), " but state on ", state->device(),
               "; move one of them.");
  }
}

}  // namespace tost
