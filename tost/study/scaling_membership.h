// Whether the membership Π still means something at a length: sums over so many tokens, in float32.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

struct MembershipCheck {
  int64_t tokens = 0;
  double temp = 0;  // largest of the heads
  // Mean over tokens of the entropy of Π over the heads, divided by log H: 1 where every head is
  // equally likely. NaN for one head.
  double entropy = 0;
  double least_share = 0, largest_share = 0;  // mean of Π over tokens, times H, of single heads
  bool finite = false;                        // all of Π, y and the sums they are made of
  double pi_error = 0;                        // largest deviation of Π from float64
  double y_error = 0;  // the same of the operator's output, relative to the largest output
};

// Runs the operator on w [B, N, C] float32 or bfloat16 and the same in float64 over blocks of
// tokens, so that no float64 copy of w is needed. temp [H, 1].
MembershipCheck check_membership(const torch::Tensor& w, const torch::Tensor& temp);

// n / sqrt(2 P): the logits are energies over their sum, so at a fixed temp they vanish as 1 / n
// and Π becomes uniform; with this factor they spread by about 1 at any length, for tokens as
// random as at the start of training.
double temp_for_length(int64_t tokens, int64_t head_width);

// The causal operator without a bias, its float64 form a block after the other with its state.
MembershipCheck check_causal_membership(const torch::Tensor& w, const torch::Tensor& temp);

}  // namespace tost
