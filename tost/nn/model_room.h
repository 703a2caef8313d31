// Memory that a model has where it runs.
#pragma once

#include "tost/base/process_memory.h"
#include "tost/ops/device.h"

namespace tost {

// Bytes that can still be had; 0 where it cannot be told.
inline int64_t room_on(at::Device device) {
  return device.is_cpu() ? available_bytes() : free_device_bytes(device);
}

}  // namespace tost
