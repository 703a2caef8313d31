// A model to be measured, by name or file, of any kind.
#pragma once

#include "tost/bench/bench_model.h"

namespace tost {

// Presets have weights drawn at random, the same at every call, such that every layer shows in the
// logits: LayerScale is 1, biases are not 0, batch norms have the statistics of their inputs.
// Throws a usage Error for unknown names and for a mixer with a file.
std::unique_ptr<BenchModel> open_bench_model(const BenchModelSource& source);

}  // namespace tost
