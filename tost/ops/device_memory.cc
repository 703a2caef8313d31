#include "tost/ops/device_memory.h"

#if defined(TOST_WITH_CUDA)
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#endif

namespace tost {

#if defined(TOST_WITH_CUDA)
namespace {

constexpr auto kAll = size_t(c10::CachingAllocator::StatType::AGGREGATE);

// The allocator knows of no device before the first tensor on it.
bool used(c10::Device device) {
  return device.is_cuda() && c10::cuda::CUDACachingAllocator::get()->initialized();
}

}  // namespace

int64_t free_device_bytes(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  int64_t kept = 0;
  if (used(device)) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    kept = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  }
  return int64_t(free) + kept;
}

int64_t device_peak_bytes(c10::Device device) {
  if (!used(device)) return 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).allocated_bytes[kAll].peak;
}

void restart_device_peak(c10::Device device) {
  if (used(device)) c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}
#else
int64_t free_device_bytes(c10::Device) {
  return 0;
}
int64_t device_peak_bytes(c10::Device) {
  return 0;
}
void restart_device_peak(c10::Device) {}
#endif

}  // namespace tost
