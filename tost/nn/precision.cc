#include "tost/nn/precision.h"

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

PrecisionScope::PrecisionScope(const std::string& precision, torch::Device device)
    : scope_(is_bf16(precision) ? Autocast::kBfloat16 : Autocast::kAsItIs, device.type()) {}

}  // namespace tost
