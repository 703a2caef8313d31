// The devices on which models compute: the CPU, or a GPU through CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tost {

// Whether torch's CUDA libraries are part of this build.
bool built_with_cuda();

// GPUs that torch sees.
int64_t gpu_count();

// The device with a name: "cpu", "cuda" (the first GPU), "cuda:N", or "auto" (the first GPU if
// there is one, else the CPU). Throws a usage Error for other names and for a missing GPU. A name
// of a GPU also disables TF32 in float32 convolutions on all GPUs.
at::Device device_from_name(const std::string& name);

struct GpuFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
};
// Facts about a GPU; nothing in a build without CUDA, or if the device does not answer.
std::optional<GpuFacts> gpu_facts(int64_t index);

// Waits until all work in the queue of the device is done.
void synchronize(at::Device device);

// Returns `x`, which may be undefined, on `device`. Copies from the CPU to a GPU use pinned memory
// and are asynchronous.
at::Tensor to_device(const at::Tensor& x, at::Device device);

// The bytes that can still be allocated on a GPU, including the allocator's cache; 0 for the CPU or
// if unknown.
int64_t free_device_bytes(at::Device device);

// The largest number of bytes of tensors on a GPU since restart_device_peak(); 0 if unknown.
int64_t device_peak_bytes(at::Device device);
void restart_device_peak(at::Device device);

// Gets and sets the state of the device's random number generator.
at::Tensor generator_state(at::Device device);
void set_generator_state(at::Device device, const at::Tensor& state);

}  // namespace tost
