// The operators of torch.ops.tost. Those with an underscore are used by mlp_grad.h,
// softmax_gradient.h and group_means.h.
#include <torch/library.h>

#include "tost/ops/schemas.h"

TORCH_LIBRARY(tost, m) {
  for (const char* schema : tost::kTssaSchemas) m.def(schema);
  m.def(
      "_norm_forward(Tensor x, Tensor weight, Tensor? bias, float eps, ScalarType dtype) -> "
      "(Tensor y, Tensor mean, Tensor rstd)");
  m.def(
      "_norm_backward(Tensor grad, Tensor? residual, Tensor x, Tensor mean, Tensor rstd, Tensor "
      "weight) -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)");
  m.def("_gelu_forward(Tensor h, Tensor? bias, bool tanh) -> Tensor a");
  m.def(
      "_gelu_backward(Tensor h, Tensor? bias, bool tanh, Tensor(a!) grad, Tensor(b!) a) -> Tensor "
      "sums");
  m.def(
      "_scaled_add(Tensor x, Tensor branch, Tensor? bias, Tensor gamma, Tensor? keep) -> Tensor y");
  m.def(
      "_kept_gradient(Tensor grad_y, Tensor? keep, ScalarType dtype) -> (Tensor kept, Tensor "
      "sums)");
  m.def("_scale_rows(Tensor weight, Tensor gamma, ScalarType dtype) -> Tensor scaled");
  m.def("_softmax_gradient(Tensor(a!) logits, Tensor targets, Tensor? scale) -> Tensor loss");
  m.def(
      "_means_forward(Tensor base, Tensor values, Tensor? gate, Tensor pi, Tensor? log_rates, "
      "Tensor scale, Tensor? sums, int from_end, bool keep) -> (Tensor y, Tensor after, Tensor "
      "carry)");
  m.def(
      "_means_backward(Tensor grad_y, Tensor base, Tensor values, Tensor? gate, Tensor pi, Tensor? "
      "log_rates, Tensor scale, Tensor carry, int from_end) -> (Tensor grad_base, Tensor "
      "grad_gate, Tensor grad_values, Tensor grad_pi, Tensor grad_decay, Tensor grad_scale)");
  m.def("_gamma_gradient(Tensor(a!) product, Tensor weight, Tensor gamma) -> Tensor dots");
}
