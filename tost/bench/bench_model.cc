#include "tost/bench/bench_model.h"

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

void show_every_layer(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (ends_with(name, "gamma1") || ends_with(name, "gamma2")) item.value().fill_(1);
    if (ends_with(name, ".bias")) item.value().normal_(0, 0.02);
  }
}

uint64_t input_seed(const BenchTask& task) {
  return uint64_t(task.batch) * 1'000'003 + uint64_t(task.size);
}

void fail_precision(const char* kind, bool engine, const std::string& precision) {
  fail_usage(precision, engine ? " is not a precision of the " : " needs the engine for ", kind,
             engine ? " engine." : " models.");
}

}  // namespace tost
