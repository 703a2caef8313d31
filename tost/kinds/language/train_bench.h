// What `tost bench train` takes steps of: language models.
#pragma once

#include <memory>

#include "tost/bench/train_bench_model.h"
#include "tost/kinds/language/config.h"

namespace tost {

std::unique_ptr<TrainBenchModel> make_bench_model(const LanguageConfig& config, int64_t batch);

}  // namespace tost
