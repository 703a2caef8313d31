// Scopes in which modules compute at a precision.
#pragma once

#include "tost/engine/precision.h"
#include "tost/nn/device_autocast.h"
#include "tost/torch.h"

namespace tost {

// Sets the precision of matrix products on this thread while in scope: bf16 enables autocast to
// bfloat16 for this device, fp32 does nothing. Throws a usage Error for other names.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, torch::Device device = torch::kCPU);

 private:
  DeviceAutocast scope_;
};

// bf16 rounds every parameter to bfloat16, which halves the bytes that decoding reads; fp32 does
// nothing. Throws a usage Error for other names.
void use_precision(torch::nn::Module& model, Precision precision);

}  // namespace tost
