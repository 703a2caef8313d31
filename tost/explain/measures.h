// How well scores or masks over tokens match a mask, and how undecided memberships are.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tost/torch.h"

namespace tost {

// A mask has one entry a token, 0 or 1.
using TokenMask = std::vector<uint8_t>;

int64_t area_of(const TokenMask& mask);

// Shared tokens over tokens in either; 1 where both are empty. Equal lengths.
double intersection_over_union(const TokenMask& a, const TokenMask& b);

// The mean of intersection_over_union between a mask of `object` tokens and all masks of `area`
// tokens among `tokens`: what a random choice of that size scores. Exact.
double chance_iou(int64_t tokens, int64_t area, int64_t object);

// Area under the ROC curve: the probability that a token of the mask scores above one outside,
// equal scores counting half. NaN where the mask holds all tokens or none.
double roc_auc(const std::vector<double>& scores, const TokenMask& mask);

// Sum of precision times gained recall over falling thresholds; equal scores share a threshold. NaN
// where the mask is empty. A random order has about the mask's share of the tokens.
double average_precision(const std::vector<double>& scores, const TokenMask& mask);

// Entropy over heads of pi [..., H, N], divided by log H: 0 sure, 1 undecided; 0 for one head.
// float64 [..., N].
torch::Tensor membership_entropy(const torch::Tensor& pi);

// Mean and deviation (population) of the values that are finite; NaN without any.
struct Spread {
  double mean = std::nan(""), deviation = std::nan("");
  int64_t count = 0;
};
// Of the mean: deviation / sqrt(count - 1); NaN below two values.
double standard_error(const Spread& spread);
Spread spread_of(const std::vector<double>& values);
Spread spread_of(const torch::Tensor& values);

}  // namespace tost
