#include "tost/eval/precision.h"

#include <ATen/autocast_mode.h>

#include "tost/base/error.h"

namespace tost {

namespace {

bool is_bf16(const std::string& precision) {
  if (precision != "bf16" && precision != "fp32") {
    fail_usage("Unknown precision '", precision, "' (known: fp32, bf16).");
  }
  return precision == "bf16";
}

}  // namespace

void use_precision(torch::nn::Module& model, const std::string& precision) {
  if (is_bf16(precision)) model.to(torch::kBFloat16);
}

PrecisionScope::PrecisionScope(const std::string& precision) : active_(is_bf16(precision)) {
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
