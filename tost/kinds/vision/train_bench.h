// What `tost bench train` takes steps of: image classifiers.
#pragma once

#include <memory>

#include "tost/bench/train_bench_model.h"
#include "tost/kinds/vision/config.h"

namespace tost {

// Square images of `side` pixels. Without stochastic depth, so that every step costs the same.
std::unique_ptr<TrainBenchModel> make_bench_model(const VisionConfig& config, int64_t batch,
                                                  int64_t side);

// Throws a usage Error if a model has no plain form; see check_plain_form for language models.
void check_plain_vision(const VisionConfig& config);

}  // namespace tost
