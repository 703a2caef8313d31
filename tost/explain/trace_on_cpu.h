// What was seen on a GPU, on the CPU: the statistics are made there.
#pragma once

#include <vector>

#include "tost/nn/block.h"
#include "tost/nn/layer_rates.h"

namespace tost {

// Undefined stays undefined.
inline torch::Tensor on_cpu(const torch::Tensor& x) {
  return x.defined() ? x.to(torch::kCPU) : x;
}
inline std::vector<torch::Tensor> on_cpu(std::vector<torch::Tensor> all) {
  for (auto& x : all) x = on_cpu(x);
  return all;
}

inline void move_to_cpu(BlockTrace& trace) {
  for (auto* x : {&trace.mixer_input, &trace.mixer.w, &trace.mixer.pi, &trace.mixer.gate,
                  &trace.mixer_output, &trace.mixed, &trace.output}) {
    *x = on_cpu(*x);
  }
}

inline void move_to_cpu(LayerRates& rates) {
  for (auto* x : {&rates.released.bound, &rates.released.exact, &rates.theory.bound,
                  &rates.theory.exact, &rates.compression_before, &rates.compression_after,
                  &rates.objective, &rates.objective_stepped, &rates.objective_unscaled}) {
    *x = on_cpu(*x);
  }
}

}  // namespace tost
