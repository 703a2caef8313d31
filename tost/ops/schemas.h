// The schemas of the operators, which libtost_torch.so and the Python package share. Users call
// `tssa` and `tssa_causal`; the forward and backward operators are for graph compilers, which see
// each as one operator.
#pragma once

namespace tost {

inline constexpr const char* kTssaSchemas[] = {
    "tssa(Tensor w, Tensor temp, Tensor? lengths=None) -> (Tensor y, Tensor pi)",
    "tssa_forward(Tensor w, Tensor temp, Tensor? lengths=None) -> "
    "(Tensor y, Tensor pi, Tensor energy, Tensor moment, Tensor pi_sum)",
    "tssa_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor pi, Tensor "
    "energy, Tensor moment, Tensor pi_sum, Tensor? lengths=None) -> "
    "(Tensor grad_w, Tensor grad_temp)",
    "tssa_causal(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state=None, SymInt position=0) "
    "-> (Tensor y, Tensor pi, Tensor state)",
    "tssa_causal_forward(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state, SymInt position) "
    "-> (Tensor y, Tensor pi, Tensor state, Tensor carry, Tensor pi_carry)",
    "tssa_causal_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor "
    "denom_bias, SymInt position, Tensor pi, Tensor carry, Tensor pi_carry) -> "
    "(Tensor grad_w, Tensor grad_temp, Tensor grad_denom_bias)",
};

}  // namespace tost
