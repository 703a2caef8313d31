// The gated delta rule on the CPU. Its schemas are here: the C++ library has no such operators.
#include "tost/kernels/delta.h"

#include <torch/csrc/stable/library.h>

#include "tensors.h"

namespace tost::python {
namespace {

kernels::ConstHeads heads_in(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}
Tensor heads_out(const Sizes& sizes, ScalarType dtype, kernels::Heads& out) {
  const auto x = empty_result(sizes, dtype);
  out = {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
  return x;
}
Tensor adjacent(const Tensor& x) {
  return x.stride(3) == 1 ? x : torch::stable::contiguous(x);
}

// The kernels' arguments, with the tensors that own their memory.
struct Inputs {
  Inputs(const Tensor& q_any, const Tensor& k_any, const Tensor& v_any, const Tensor& beta_any,
         const OptionalTensor& log_decay_any, double scale) {
    if (q_any.dim() != 4 || v_any.dim() != 4) {
      fail_usage("delta_rule: q and v must be [batch, tokens, heads, width], but have ",
                 q_any.dim(), " and ", v_any.dim(), " dimensions.");
    }
    dtype = q_any.scalar_type();
    if (dtype != ScalarType::Float && dtype != ScalarType::BFloat16) {
      fail_usage("delta_rule: q must be float32 or bfloat16, but is ", toString(dtype),
                 "; tost.ops.delta_rule takes float16 and float64 too.");
    }
    per_token = {q_any.size(0), q_any.size(1), q_any.size(2)};
    like_q = like_v = per_token;
    like_q.push_back(q_any.size(3)), like_v.push_back(v_any.size(3));
    check_tensor("q", q_any, like_q, dtype);
    check_tensor("k", k_any, like_q, dtype);
    check_tensor("v", v_any, like_v, dtype);
    check_tensor("beta", beta_any, per_token, beta_any.scalar_type());
    q = adjacent(q_any), k = adjacent(k_any), v = adjacent(v_any), beta = float_values(beta_any);
    args.samples = q.size(0), args.tokens = q.size(1), args.heads = q.size(2);
    args.keys = q.size(3), args.values = v.size(3);
    state_sizes = {args.samples, args.heads, args.keys, args.values};
    args.dtype = kernel_dtype(q);
    args.q = heads_in(q), args.k = heads_in(k), args.v = heads_in(v), args.beta = heads_in(beta);
    args.scale = static_cast<float>(scale);
    if (!log_decay_any) return;
    check_tensor("g", *log_decay_any, per_token, log_decay_any->scalar_type());
    log_decay = float_values(*log_decay_any);
    args.log_decay = heads_in(*log_decay);
  }

  ScalarType dtype;
  Sizes per_token, like_q, like_v, state_sizes;
  Tensor q, k, v, beta;
  OptionalTensor log_decay;
  kernels::DeltaArgs args;
};

std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& beta, const OptionalTensor& log_decay,
                                           const OptionalTensor& state_any, double scale,
                                           bool keep) {
  Inputs in(q, k, v, beta, log_decay, scale);
  OptionalTensor state;
  if (state_any) {
    check_tensor("initial_state", *state_any, in.state_sizes, ScalarType::Float);
    state = as_contiguous(*state_any);
    in.args.state = read<float>(*state);
  }
  const auto o = heads_out(in.like_v, in.dtype, in.args.o);
  const auto after = empty_result(in.state_sizes, ScalarType::Float);
  const auto carry = empty_result({keep ? delta_carry_size(in.args) : 0}, ScalarType::Float);
  in.args.next_state = write<float>(after);
  if (keep) in.args.carry = write<float>(carry);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::delta_workspace(in.args, /*backward=*/false, threads));
  kernels::delta_forward(in.args, workspace.data(), torch_parallel, threads);
  return {o, after, carry};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad_o_any, const OptionalTensor& grad_state_any, const Tensor& q,
    const Tensor& k, const Tensor& v, const Tensor& beta, const OptionalTensor& log_decay,
    double scale, const Tensor& carry_any) {
  Inputs in(q, k, v, beta, log_decay, scale);
  auto& args = in.args;
  check_tensor("grad_o", grad_o_any, in.like_v, grad_o_any.scalar_type());
  check_tensor("carry", carry_any, {delta_carry_size(args)}, ScalarType::Float);
  const auto grad_o = adjacent(converted(grad_o_any, in.dtype)), carry = as_contiguous(carry_any);
  args.grad_o = heads_in(grad_o);
  args.carry = write<float>(carry);
  OptionalTensor grad_after;
  if (grad_state_any) {
    check_tensor("grad_state", *grad_state_any, in.state_sizes, grad_state_any->scalar_type());
    grad_after = float_values(*grad_state_any);
    args.grad_next_state = read<float>(*grad_after);
  }
  const auto grad_q = heads_out(in.like_q, in.dtype, args.grad_q);
  const auto grad_k = heads_out(in.like_q, in.dtype, args.grad_k);
  const auto grad_v = heads_out(in.like_v, in.dtype, args.grad_v);
  const auto grad_beta = heads_out(in.per_token, ScalarType::Float, args.grad_beta);
  const auto grad_decay = heads_out(in.per_token, ScalarType::Float, args.grad_log_decay);
  const auto grad_state = empty_result(in.state_sizes, ScalarType::Float);
  args.grad_state = write<float>(grad_state);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::delta_workspace(args, /*backward=*/true, threads));
  kernels::delta_backward(args, workspace.data(), torch_parallel, threads);
  return {grad_q, grad_k, grad_v, grad_beta, grad_decay, grad_state};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(tost, m) {
  m.def(
      "delta_forward(Tensor q, Tensor k, Tensor v, Tensor beta, Tensor? g, Tensor? state, float "
      "scale, bool keep) -> (Tensor o, Tensor state, Tensor carry)");
  m.def(
      "delta_backward(Tensor grad_o, Tensor? grad_state, Tensor q, Tensor k, Tensor v, Tensor "
      "beta, Tensor? g, float scale, Tensor carry) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor)");
}
STABLE_TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("delta_forward", TORCH_BOX(&forward));
  m.impl("delta_backward", TORCH_BOX(&backward));
}

}  // namespace tost::python
