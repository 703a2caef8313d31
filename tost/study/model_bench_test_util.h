// The shortest measurement of a model.
#pragma once

#include <string>

#include "tost/study/torch_bench.h"

namespace tost::testing {

// Of the plain modules, without floors.
inline ModelBenchOptions tiny_model_bench(const std::string& model) {
  ModelBenchOptions options;
  options.backend = torch_bench();
  options.models = {model};
  options.engines = {false};
  options.warmup = 0;
  options.repeat = 2;
  options.floors = false;
  return options;
}

}  // namespace tost::testing
