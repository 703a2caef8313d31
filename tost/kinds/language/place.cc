#include "tost/kinds/language/place.h"

#include "tost/base/error.h"
#include "tost/kinds/language/engine.h"

namespace tost {

void place_language(const std::shared_ptr<LanguageModel>& model, Precision precision,
                    torch::Device device) {
  if (device.is_cpu()) {
    if (!model->config().auto_encoder || precision != Precision::kFp32) {
      read_by_engine(model, precision);
    }
    return;
  }
  if (!facts_of(precision).modules) {
    fail_usage(precision,
               " needs the inference engine, which runs on the CPU; use fp32 or bf16 on ",
               device.str(), ".");
  }
  model->to(device);
}

Precisions language_precisions(torch::Device device) {
  return device.is_cpu() ? all_precisions() : classifier_precisions(/*engine=*/false);
}

Precision scope_precision(Precision precision, torch::Device device) {
  return device.is_cpu() ? Precision::kFp32 : precision;
}

}  // namespace tost
