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
#include "tost/ops/kernel_args.h"

namespace tost {

// Of the current device. TOST_GPU_SHARED=bytes lowers the shared memory that kernels may plan with:
// with 0 no block keeps a whole sample.
inline kernels::cuda::DeviceFacts device_facts() {
  int device = 0, multiprocessors = 0, shared = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const char* limit = std::getenv("TOST_GPU_SHARED");
  return {multiprocessors, limit != nullptr ? std::min(shared, std::atoi(limit)) : shared};
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
