// Memory of the device a model runs on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace tost {

// Bytes that can still be had, those the allocator keeps for later included; of the CPU, and where
// it cannot be told, 0.
int64_t free_device_bytes(c10::Device device);

// Most bytes that tensors on a GPU took at once since restart_device_peak(); 0 where it cannot be
// told.
int64_t device_peak_bytes(c10::Device device);
void restart_device_peak(c10::Device device);

}  // namespace tost
