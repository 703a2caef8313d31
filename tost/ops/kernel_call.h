// Converts tensors to arguments of the kernels.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <optional>

#include "tost/kernels/tssa.h"

namespace tost {

inline constexpr auto torch_parallel = [](int64_t tasks,
                                          function_ref<void(int64_t, int64_t)> body) {
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) { body(begin, end); });
};
inline int torch_threads() {
  return at::in_parallel_region() ? 1 : at::get_num_threads();
}

inline kernels::DType kernel_dtype(const at::Tensor& w) {
  TORCH_CHECK(w.scalar_type() == at::kFloat || w.scalar_type() == at::kBFloat16,
              "Kernels take float32 and bfloat16, not ", w.scalar_type(), ".");
  return w.scalar_type() == at::kBFloat16 ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
}
inline kernels::TssaShape shape_of(const at::Tensor& w, int64_t heads) {
  return {w.size(0), w.size(1), heads, w.size(2) / heads};
}

// Converts an undefined tensor to nullopt.
inline std::optional<at::Tensor> if_defined(const at::Tensor& x) {
  return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
}

// Makes channels adjacent, as the kernels need; other strides are arbitrary.
inline at::Tensor adjacent_channels(const at::Tensor& x) {
  return x.size(2) == 1 || x.stride(2) == 1 ? x : x.contiguous();
}
inline kernels::ConstTokens tokens_in(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1)};
}
inline kernels::Tokens tokens_out(const at::Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1)};
}

// The values of a parameter as a contiguous float32 tensor.
inline at::Tensor float_values(const at::Tensor& x) {
  return x.to(at::kFloat).contiguous();
}

}  // namespace tost
