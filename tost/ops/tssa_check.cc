#include "tost/ops/tssa_check.h"

#include "tost/base/error.h"

namespace tost {

void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads) {
  if (w.dim() != 3) {
    fail_usage("tssa: w must be [batch, tokens, channels], but has ", w.dim(), " dimensions.");
  }
  const auto dtype = w.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kDouble) {
    fail_usage("tssa: w must be float32, bfloat16 or float64, but is ", dtype, ".");
  }
  const auto channels = w.sym_size(2);
  if (heads < 1 || channels < 1 || channels % heads != 0) {
    fail_usage("tssa: the ", channels, " channels of w cannot be split over ", heads,
               " heads; choose a number of heads that divides the channels.");
  }
}

void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp) {
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
}

}  // namespace tost
