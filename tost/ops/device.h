// Where models compute: the CPU, or a GPU through CUDA.
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

// "cpu"; "cuda", the first GPU; "cuda:N"; "auto", the first GPU where torch sees one, else the CPU.
// Throws a usage Error for other names and where there is no such GPU, saying why. From the first
// GPU asked for on, float32 convolutions on all of them multiply float32, as matrix products do.
at::Device device_from_name(const std::string& name);

struct GpuFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
};
// Nothing in a build without CUDA, and where the device does not answer.
std::optional<GpuFacts> gpu_facts(int64_t index);

// Waits until all that was queued on the device is done.
void synchronize(at::Device device);

// `x`, which may be undefined, on `device`: itself where it is there. From the CPU to a GPU it goes
// through pinned memory, and this does not wait for it.
at::Tensor to_device(const at::Tensor& x, at::Device device);

// Bytes that can still be had, those the allocator keeps for later included; of the CPU, and where
// it cannot be told, 0.
int64_t free_device_bytes(at::Device device);

// Most bytes that tensors on a GPU took at once since restart_device_peak(); 0 where it cannot be
// told.
int64_t device_peak_bytes(at::Device device);
void restart_device_peak(at::Device device);

// The state of the generator that random operations on the device draw from, and back.
at::Tensor generator_state(at::Device device);
void set_generator_state(at::Device device, const at::Tensor& state);

}  // namespace tost
