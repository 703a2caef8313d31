// bf16 matrix products inside a scope, weights untouched.
#pragma once

#include <string>

namespace tost {

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

}  // namespace tost
