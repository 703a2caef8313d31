// How much one token changes what a layer gives to later ones.
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/torch.h"

namespace tost {

// x [T, C], the tokens that go into a mixer. Entry [j, t], t > j, of the result [T, T] float64 is
// |mixer(x)_t - mixer(x without token j)_t| / |mixer(x)_t|: exact, by running the tokens after j
// on the state before it, at their own positions. 0 where t <= j, and where the output is 0.
// Through sums over tokens, and through a convolution or attention where the mixer has them. Costs
// T runs of T/2 tokens.
torch::Tensor token_influence(CausalMixer& mixer, const torch::Tensor& x);

// Mean of the entries [j, j + d] over j, for d = 1 ... T - 1: how influence fades with distance.
torch::Tensor influence_by_distance(const torch::Tensor& influence);

// Mean of the entries [j, j + 1 ... j + reach]: how much token j counts for those after it; NaN
// where fewer than `reach` follow.
torch::Tensor influence_of_tokens(const torch::Tensor& influence, int64_t reach);

// The reach for `tokens`: 32, or half of them where they are fewer than 64, at least 1.
int64_t influence_reach(int64_t tokens);

}  // namespace tost
