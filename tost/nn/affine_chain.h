// States of causal mixers that a run of tokens changes by an affine map, where the tokens lie in
// several places.
#pragma once

#include "tost/ops/token_sums.h"
#include "tost/torch.h"

namespace tost {

// The state before the first token of this place, zeros before that of the first place, where the
// tokens of a place make A S + B of a state S. a [..., P, P], b [..., P, Q] → [..., P, Q]. What is
// passed does not grow with the tokens. Differentiable; every place is to use the result.
torch::Tensor state_before(const TokenSums& sums, const torch::Tensor& a, const torch::Tensor& b);

// The same where the tokens of a place make kept S + own of it, element by element.
torch::Tensor decayed_state_before(const TokenSums& sums, const torch::Tensor& kept,
                                   const torch::Tensor& own);

}  // namespace tost
