// tssa_causal and its derivative for autograd.
#include "tost/ops/tssa_causal.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "tost/ops/tssa_check.h"

namespace tost {

std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal(const at::Tensor& w,
                                                           const at::Tensor& temp,
                                                           const at::Tensor& denom_bias,
                                                           const std::optional<at::Tensor>& state,
                                                           int64_t position) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("tost::tssa_causal", "")
                             .typed<decltype(tssa_causal)>();
  return op.call(w, temp, denom_bias, state, position);
}

TORCH_LIBRARY_IMPL(tost, Autograd, m) {
  m.impl("tssa_causal", tssa_causal_plain);
}

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_causal", tssa_causal_plain);
}

}  // namespace tost
