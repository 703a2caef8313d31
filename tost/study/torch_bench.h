// Measures models with torch: presets, plain modules and GPUs as well.
#pragma once

#include "tost/bench/model_bench.h"

namespace tost {

BenchBackend torch_bench();

}  // namespace tost
