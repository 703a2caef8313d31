#include "tost/ops/device.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <charconv>
#include <mutex>

#include "tost/base/error.h"
#if defined(TOST_WITH_CUDA)
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#endif

namespace tost {
namespace {

constexpr char kCudaPrefix[] = "cuda:";

// The number N in the name "cuda:N" of a GPU; nothing for other names.
std::optional<int64_t> gpu_number(const std::string& name) {
  if (name == "cuda") return 0;
  if (name.rfind(kCudaPrefix, 0) != 0) return std::nullopt;
  const char *begin = name.data() + sizeof(kCudaPrefix) - 1, *end = name.data() + name.size();
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(begin, end, number);
  const bool whole = error == std::errc() && rest == end && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

std::string why_no_gpu() {
#if defined(TOST_WITH_CUDA)
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  return error == cudaSuccess ? "it hides them all (CUDA_VISIBLE_DEVICES)"
                              : cudaGetErrorString(error);
#else
  return "";
#endif
}

const at::Generator& default_generator(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

// Disables TF32, in which cuDNN would round the inputs of float32 convolutions to ten bits.
at::Device gpu(int64_t number) {
  at::globalContext().setAllowTF32CuDNN(false);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(number));
}

}  // namespace

bool built_with_cuda() {
#if defined(TOST_WITH_CUDA)
  return true;
#else
  return false;
#endif
}

int64_t gpu_count() {
  return at::detail::getCUDAHooks().deviceCount();
}

at::Device device_from_name(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const int64_t count = gpu_count();
  if (name == "auto") return count > 0 ? gpu(0) : at::Device(at::kCPU);
  const auto number = gpu_number(name);
  if (!number) {
    fail_usage("Unknown device '", name, "'; use cpu, cuda, cuda:N (the GPU of number N) or auto.");
  }
  if (count == 0 && !built_with_cuda()) {
    fail_usage("Device '", name,
               "' needs a build with CUDA: cmake --preset cuda && cmake --build --preset cuda.");
  }
  if (count == 0) fail_usage("No CUDA device is visible to torch: ", why_no_gpu(), ".");
  if (*number >= count) {
    fail_usage("There is no device '", name, "'; torch sees ", count,
               count == 1 ? " CUDA device" : " CUDA devices", ", numbered from 0.");
  }
  return gpu(*number);
}

std::optional<GpuFacts> gpu_facts(int64_t index) {
#if defined(TOST_WITH_CUDA)
  cudaDeviceProp found{};
  if (cudaGetDeviceProperties(&found, static_cast<int>(index)) != cudaSuccess) return std::nullopt;
  return GpuFacts{.name = found.name,
                  .major = found.major,
                  .minor = found.minor,
                  .multiprocessors = found.multiProcessorCount,
                  .memory_bytes = static_cast<int64_t>(found.totalGlobalMem),
                  .l2_bytes = found.l2CacheSize};
#else
  static_cast<void>(index);
  return std::nullopt;
#endif
}

void synchronize(at::Device device) {
  if (device.is_cuda()) at::detail::getCUDAHooks().deviceSynchronize(device.index());
}

at::Tensor to_device(const at::Tensor& x, at::Device device) {
  if (!x.defined() || x.device() == device) return x;
  if (!x.is_cpu() || !device.is_cuda() || x.numel() == 0) return x.to(device);
  return x.pin_memory().to(device, /*non_blocking=*/true);
}

at::Tensor generator_state(at::Device device) {
  auto generator = default_generator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Device device, const at::Tensor& state) {
  auto generator = default_generator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

#if defined(TOST_WITH_CUDA)
namespace {

constexpr auto kAll = size_t(c10::CachingAllocator::StatType::AGGREGATE);

// Whether the device has had a tensor; its allocator has no statistics before the first one.
bool used(at::Device device) {
  return device.is_cuda() && c10::cuda::CUDACachingAllocator::get()->initialized();
}

}  // namespace

int64_t free_device_bytes(at::Device device) {
  if (!device.is_cuda()) return 0;
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;
  int64_t cached = 0;
  if (used(device)) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    cached = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  }
  return int64_t(free) + cached;
}

int64_t device_peak_bytes(at::Device device) {
  if (!used(device)) return 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).allocated_bytes[kAll].peak;
}

void restart_device_peak(at::Device device) {
  if (used(device)) c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}
#else
int64_t free_device_bytes(at::Device) {
  return 0;
}
int64_t device_peak_bytes(at::Device) {
  return 0;
}
void restart_device_peak(at::Device) {}
#endif

}  // namespace tost
