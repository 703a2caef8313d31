// The device of a module's parameters, the memory available there, and the module's mode.
#pragma once

#include "tost/base/machine.h"
#include "tost/ops/device.h"
#include "tost/torch.h"

namespace tost {

// The device of the module's first parameter; the CPU for a module without parameters.
inline torch::Device device_of(const torch::nn::Module& module) {
  const auto all = module.parameters();
  return all.empty() ? torch::Device(torch::kCPU) : all.front().device();
}

// The bytes of memory that are available on a device; 0 if unknown.
inline int64_t room_on(at::Device device) {
  return device.is_cpu() ? available_bytes() : free_device_bytes(device);
}

// Sets a module to evaluation mode while in scope, then restores its mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool training_;
};

}  // namespace tost
