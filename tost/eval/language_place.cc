#include "tost/eval/language_place.h"

#include "tost/base/error.h"
#include "tost/infer/language_engine.h"

namespace tost {

void place_language(const std::shared_ptr<LanguageModel>& model, const std::string& precision,
                    torch::Device device) {
  if (device.is_cpu()) {
    read_by_engine(model, precision);
    return;
  }
  if (precision == "int8" || precision == "int4") {
    fail_usage(precision,
               " needs the inference engine, which runs on the CPU; use fp32 or bf16 on ",
               device.str(), ".");
  }
  const PrecisionScope known(precision, device);
  model->to(device);
}

std::string scope_precision(const std::string& precision, torch::Device device) {
  return device.is_cpu() ? "fp32" : precision;
}

}  // namespace tost
