// The schemas of torch.ops.tost. The inner forward and backward exist so that graph compilers see
// them as single operators; users call `tssa`
// and `tssa_causal`.
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
}
