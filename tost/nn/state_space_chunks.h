// The chunked form of a diagonal state-space model; see state_space.h for what it computes.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

// Complex but for skip, in float64.
struct StateSpaceTerms {
  torch::Tensor rate;    // Δ A [C, N]
  torch::Tensor input;   // b [C, N]
  torch::Tensor output;  // 2 C [1 or 2, C, N]; two read from both sides
  torch::Tensor skip;    // d [C]

  // Those of `count` channels from `first` on.
  StateSpaceTerms channels(int64_t first, int64_t count) const {
    return {rate.narrow(0, first, count), input.narrow(0, first, count),
            output.narrow(1, first, count), skip.narrow(0, first, count)};
  }
};

// u [C, B, M, Q]: M chunks of Q tokens, zeros from the `tokens`-th on; float32 or float64. Returns
// the same shape. `state` as in StateSpace::forward.
torch::Tensor mix_chunks(const StateSpaceTerms& terms, const torch::Tensor& u, int64_t tokens,
                         torch::Tensor* state);

// x [B, 1, C] → [C, B, 1] float64, with the state before and after.
torch::Tensor single_step(const StateSpaceTerms& terms, const torch::Tensor& x,
                          torch::Tensor& state);

// What each chunk starts from: X_0 = 0, X_{m+1} = exp(rate) X_m + ends_m. ends [C, B, M, N]
// complex; rate [C, N], complex128. Log-depth, linear work.
torch::Tensor states_before(const torch::Tensor& ends, const torch::Tensor& rate);

}  // namespace tost
