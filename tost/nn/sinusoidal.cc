// The table of sinusoidal positions, and its cache.
#include "tost/nn/sinusoidal.h"

#include <cmath>

namespace tost {

using torch::Tensor;

Tensor sinusoidal_positions(int64_t tokens, int64_t dim) {
  const auto fp64 = torch::dtype(torch::kFloat64);
  const auto position = torch::arange(tokens, fp64).unsqueeze(1);
  const auto rate = torch::exp(torch::arange(0, dim, 2, fp64) * (-std::log(10000.0) / double(dim)));
  const auto angle = position * rate;  // [N, (C + 1) / 2]
  return torch::stack({angle.sin(), angle.cos()}, 2)
      .flatten(1)
      .narrow(1, 0, dim)
      .to(torch::kFloat32)
      .contiguous();
}

Tensor SinusoidalTable::rows(int64_t tokens, const Tensor& like) {
  const std::lock_guard lock(mutex_);
  if (!table_.defined() || table_.size(0) < tokens || table_.device() != like.device() ||
      table_.dtype() != like.dtype()) {
    // A table made under inference mode could never serve training later.
    const c10::InferenceMode plain(false);
    table_ = sinusoidal_positions(tokens, like.size(-1)).to(like.options());
  }
  return table_.narrow(0, 0, tokens);
}

}  // namespace tost
