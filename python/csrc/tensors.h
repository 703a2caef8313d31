// Between torch's stable tensors and the kernels' arguments: checks, threads, memory of results.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "tost/base/error.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/block_cache.h"

namespace tost::python {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Sizes = std::vector<int64_t>;

inline constexpr auto torch_parallel = [](int64_t tasks,
                                          function_ref<void(int64_t, int64_t)> body) {
  torch::stable::parallel_for(0, tasks, 1, body);
};
inline int torch_threads() {
  return static_cast<int>(torch::stable::get_num_threads());
}

// Refuses a tensor whose memory the kernels must not read as `dtype` of this shape.
inline void check_tensor(std::string_view name, const Tensor& x, const Sizes& sizes,
                         ScalarType dtype) {
  const auto found = x.sizes();
  if (!x.is_cpu() || x.scalar_type() != dtype ||
      !std::equal(found.begin(), found.end(), sizes.begin(), sizes.end())) {
    std::string expected, is;
    for (const int64_t n : sizes) expected += (expected.empty() ? "" : ", ") + std::to_string(n);
    for (const int64_t n : found) is += (is.empty() ? "" : ", ") + std::to_string(n);
    fail_usage("tost: ", name, " must be [", expected, "] of ", toString(dtype),
               " on the CPU, but is [", is, "] of ", toString(x.scalar_type()), ".");
  }
}

// The shape of w [B, N, C] with the heads of temp [H, 1].
inline kernels::TssaShape checked_shape(const Tensor& w, const Tensor& temp) {
  if (w.dim() != 3 || !w.is_cpu()) {
    fail_usage("tssa: w must be [batch, tokens, channels] on the CPU, but has ", w.dim(),
               " dimensions.");
  }
  if (w.scalar_type() != ScalarType::Float && w.scalar_type() != ScalarType::BFloat16) {
    fail_usage("tssa: w must be float32 or bfloat16, but is ", toString(w.scalar_type()),
               "; tost.ops.tssa takes float16 and float64 too.");
  }
  check_tensor("temp", temp, {temp.dim() > 0 ? temp.size(0) : 1, 1}, temp.scalar_type());
  const int64_t heads = temp.size(0), channels = w.size(2);
  if (heads < 1 || channels < 1 || channels % heads != 0) {
    fail_usage("tssa: the ", channels, " channels of w cannot be split over ", heads,
               " heads; choose a number of heads that divides the channels.");
  }
  return {w.size(0), w.size(1), heads, channels / heads};
}

inline kernels::DType kernel_dtype(const Tensor& w) {
  return w.scalar_type() == ScalarType::BFloat16 ? kernels::DType::kBfloat16
                                                 : kernels::DType::kFloat32;
}

inline Tensor converted(const Tensor& x, ScalarType dtype) {
  return x.scalar_type() == dtype ? x : torch::stable::to(x, dtype);
}
inline Tensor as_contiguous(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}
inline Tensor float_values(const Tensor& x) {
  return as_contiguous(converted(x, ScalarType::Float));
}
// The kernels want adjacent channels; any other stride will do.
inline Tensor adjacent_channels(const Tensor& x) {
  return x.size(2) == 1 || x.stride(2) == 1 ? x : torch::stable::contiguous(x);
}

template <class T>
const T* read(const Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}
template <class T>
T* write(const Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}
inline kernels::ConstTokens tokens_in(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1)};
}
inline kernels::Tokens tokens_out(const Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1)};
}

// Gradients of y and of the memberships, checked and as the kernels take them. An absent grad_y is
// zero, an absent grad_pi stays absent.
struct Gradients {
  Gradients(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
            const kernels::TssaShape& shape, const Tensor& w) {
    const Sizes like_w = {shape.batch, shape.tokens, shape.channels()};
    const Sizes like_pi = {shape.batch, shape.heads, shape.tokens};
    if (grad_y) check_tensor("grad_y", *grad_y, like_w, grad_y->scalar_type());
    if (grad_pi) check_tensor("grad_pi", *grad_pi, like_pi, grad_pi->scalar_type());
    y = adjacent_channels(grad_y ? converted(*grad_y, w.scalar_type())
                                 : torch::stable::new_zeros(w, like_w));
    if (grad_pi) pi = float_values(*grad_pi);
  }
  const float* pi_values() const { return pi ? read<float>(*pi) : nullptr; }

  Tensor y;
  OptionalTensor pi;
};

// A contiguous result. Large ones come from the cache of blocks, as fresh pages cost as much as
// the kernel that fills them.
inline Tensor empty_result(const Sizes& sizes, ScalarType dtype) {
  constexpr int64_t kLarge = 128 << 10;
  int64_t bytes = dtype == ScalarType::Double ? 8 : dtype == ScalarType::Float ? 4 : 2;
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i];
  }
  bytes *= step;
  const torch::stable::Device cpu(torch::headeronly::DeviceType::CPU);
  if (bytes < kLarge) return torch::stable::empty(sizes, dtype, std::nullopt, cpu);
  void* data = BlockCache::instance().allocate(static_cast<size_t>(bytes));
  return torch::stable::from_blob(data, sizes, strides, cpu, dtype,
                                  [](void* block) { BlockCache::instance().release(block); });
}

}  // namespace tost::python
