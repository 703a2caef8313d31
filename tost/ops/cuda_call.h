// Between tensors on a GPU and the kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/ops/device.h"
#include "tost/ops/kernel_args.h"

namespace tost {

// `value`, lowered to the number of bytes that the environment gives, or else `otherwise`.
inline int64_t at_most(int value, const char* variable, int64_t otherwise) {
  const char* limit = std::getenv(variable);
  return limit != nullptr ? std::min<int64_t>(value, std::atoi(limit)) : otherwise;
}

// Where memory is faster than this, in bytes a second, the launches for another group of samples
// take as long as reading it from the cache saves: by counting, not measured.
inline constexpr double kFastMemory = 2.5e12;

// The environment lowers what kernels may plan with: with TOST_GPU_SHARED=0 no block keeps a whole
// sample; with TOST_GPU_CACHE=bytes batches go in groups that such a L2 cache holds,
// whatever the memory's speed (1: sample by sample).
inline kernels::cuda::DeviceFacts ask_device(int device) {
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
    return value;
  };
  const int shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const int cache = attribute(cudaDevAttrL2CacheSize);
  // Two transfers a clock, which is in kHz, of a bus in bits.
  const double memory =
      2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  return {attribute(cudaDevAttrMultiProcessorCount), at_most(shared, "TOST_GPU_SHARED", shared),
          at_most(cache, "TOST_GPU_CACHE", memory < kFastMemory ? cache : 0)};
}

// Of the current device; asked once, since clocks are slow to tell.
inline const kernels::cuda::DeviceFacts& device_facts() {
  static const auto all = [] {
    int count = 0;
    C10_CUDA_CHECK(cudaGetDeviceCount(&count));
    std::vector<kernels::cuda::DeviceFacts> facts;
    for (int device = 0; device < count; ++device) facts.push_back(ask_device(device));
    return facts;
  }();
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  return all.at(static_cast<size_t>(device));
}

// Whether work on this tensor may go by the kernels; shapes are another question.
inline bool by_kernels(const at::Tensor& w) {
  return w.scalar_type() != at::kDouble && gpu_has_kernels(w.device().index());
}

// Makes results on the device of `like`.
inline auto gpu_empty(const at::Tensor& like) {
  return [options = like.options()](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, options.dtype(dtype));
  };
}
// The allocator keeps it for the current stream until the work queued there is done.
inline at::Tensor gpu_workspace(int64_t bytes, const at::Tensor& like) {
  return at::empty({bytes}, like.options().dtype(at::kByte));
}
inline void gpu_check(int error) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(error));
}
inline void* gpu_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

}  // namespace tost
