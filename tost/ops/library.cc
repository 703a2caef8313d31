// The schemas of torch.ops.tost. The inner forward and backward exist so that graph compilers see
// them as single operators; users call `tssa` and `tssa_causal`. Those with an underscore stand
// behind mlp_grad.h and softmax_gradient.h.
#include <torch/library.h>

TORCH_LIBRARY(tost, m) {
  m.def("tssa(Tensor w, Tensor temp, Tensor? lengths=None) -> (Tensor y, Tensor pi)");
  m.def(
      "tssa_forward(Tensor w, Tensor temp, Tensor? lengths=None) -> "
      "(Tensor y, Tensor pi, Tensor energy, Tensor moment, Tensor pi_sum)");
  m.def(
      "tssa_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor pi, Tensor "
      "energy, Tensor moment, Tensor pi_sum, Tensor? lengths=None) -> "
      "(Tensor grad_w, Tensor grad_temp)");
  m.def(
      "tssa_causal(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state=None, SymInt "
      "position=0) "
      "-> (Tensor y, Tensor pi, Tensor state)");
  m.def(
      "tssa_causal_forward(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state, SymInt "
      "position) "
      "-> (Tensor y, Tensor pi, Tensor state, Tensor carry, Tensor pi_carry)");
  m.def(
      "tssa_causal_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor "
      "denom_bias, SymInt position, Tensor pi, Tensor carry, Tensor pi_carry) -> "
      "(Tensor grad_w, Tensor grad_temp, Tensor grad_denom_bias)");
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
  m.def("_gamma_gradient(Tensor(a!) product, Tensor weight, Tensor gamma) -> Tensor dots");
}
