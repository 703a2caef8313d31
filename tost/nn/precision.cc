#include "tost/nn/precision.h"

namespace tost {
namespace {

bool is_bf16(Precision precision) {
  check_modules_multiply(precision);
  return precision == Precision::kBf16;
}

}  // namespace

void use_precision(torch::nn::Module& model, Precision precision) {
  if (is_bf16(precision)) model.to(torch::kBFloat16);
}

PrecisionScope::PrecisionScope(Precision precision, torch::Device device)
    : scope_(is_bf16(precision) ? Autocast::kBfloat16 : Autocast::kAsItIs, device.type()) {}

}  // namespace tost
