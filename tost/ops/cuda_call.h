// Between tensors on a GPU and the kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>

#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/ops/device.h"
#include "tost/ops/kernel_args.h"

namespace tost {

// `value`, lowered to the number of bytes that the environment gives.
inline int64_t at_most(int value, const char* variable) {
  const char* limit = std::getenv(variable);
  return limit != nullptr ? std::min<int64_t>(value, std::atoi(limit)) : value;
}

// Of the current device. TOST_GPU_SHARED and TOST_GPU_CACHE lower the shared memory of a block and
// the second-level cache that kernels may plan with: with TOST_GPU_SHARED=0 no block keeps a whole
// sample, with TOST_GPU_CACHE=1 samples go through the passes one by one.
inline kernels::cuda::DeviceFacts device_facts() {
  int device = 0, multiprocessors = 0, shared = 0, cache = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  return {multiprocessors, at_most(shared, "TOST_GPU_SHARED"), at_most(cache, "TOST_GPU_CACHE")};
}

// Whether TSSA on this tensor may go by the kernels; shapes are another question.
inline bool by_kernels(const at::Tensor& w) {
  if (w.scalar_type() == at::kDouble) return false;
  int major = 0, minor = 0;
  const int device = w.device().index();
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return kernels_run_on(major, minor);
}

// Makes results beside `like`.
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
