// How exactly a model computes.
#pragma once

#include <torch/torch.h>

#include <string>

namespace tost {

// bf16 matrix products inside a scope, weights untouched.
// "fp32": does nothing. "bf16": CPU autocast to bfloat16 for this thread until the scope ends.
// Anything else is a usage Error.
class PrecisionScope {
 public:
  explicit PrecisionScope(const std::string& precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  bool active_ = false, before_ = false;
};

// "fp32": does nothing. "bf16": rounds every parameter to bfloat16, halving what decoding reads.
// Anything else is a usage Error.
void use_precision(torch::nn::Module& model, const std::string& precision);

}  // namespace tost
