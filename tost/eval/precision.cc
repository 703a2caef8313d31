#include "tost/eval/precision.h"

#include <ATen/autocast_mode.h>

#include "tost/base/error.h"

namespace tost {

PrecisionScope::PrecisionScope(const std::string& precision) : active_(precision == "bf16") {
  if (!active_ && precision != "fp32") {
    fail_usage("Unknown precision '", precision, "' (known: fp32, bf16).");
  }
  if (!active_) return;
  before_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
}

PrecisionScope::~PrecisionScope() {
  if (!active_) return;
  // The cache holds bf16 copies of weights; kept longer it would survive an optimiser step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, before_);
}

}  // namespace tost
