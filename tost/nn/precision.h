// Scopes in which modules compute at a precision.
#pragma once

#include "tost/engine/precision.h"
#include "tost/nn/device_autocast.h"
#include "tost/torch.h"

namespace tost {

// bf16 matrix products inside a scope, weights untouched.
// fp32: does nothing. bf16: autocast to bfloat16 of that device for this thread until the scope
// ends. Anything else is a usage Error.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, torch::Device device = torch::kCPU);

 private:
  DeviceAutocast scope_;
};

// fp32: does nothing. bf16: rounds every parameter to bfloat16, halving what decoding reads.
// Anything else is a usage Error.
void use_precision(torch::nn::Module& model, Precision precision);

}  // namespace tost
