// The device a module's parameters lie on.
#pragma once

#include "tost/ops/device.h"
#include "tost/torch.h"

namespace tost {

// That of its first parameter; the CPU for a module without any.
inline torch::Device device_of(const torch::nn::Module& module) {
  const auto all = module.parameters();
  return all.empty() ? torch::Device(torch::kCPU) : all.front().device();
}

}  // namespace tost
