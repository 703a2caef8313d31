// What the layers of a language model do with a text, as /v1/explain shows it. Engines note this
// while they read, because it does not stay in the state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/mixers.h"

namespace tost {

struct TracedBlock {
  using ByHead = std::vector<std::vector<double>>;  // [H][T]; empty where a mixer has none

  // Each adds numbers of the next tokens: memberships [H, T]; the mean of a head [P] after one
  // token, and its value; memberships and all means, from the products of MeansMix; the effect,
  // from the residual stream [T, C] before and after a mixer's result is added.
  void add_memberships(const float* pi, int64_t heads, int64_t tokens);
  void add_mean(size_t head, const float* mean, const float* value, int64_t width);
  void add_means(const MeansWeights& weights, int64_t tokens, const float* parts, const float* pi);
  void add_effect(const float* before, const float* after, int64_t tokens, int64_t dim);

  std::string mixer;              // its name
  ByHead memberships;             // sum to 1 over heads
  ByHead mean_norm, mean_cosine;  // of a head's mean after each token; with the token's values
  std::vector<double> effect;     // |gamma1 mixer(norm x)| / |x|, x the residual stream before
  ByHead sums;                    // of add_means() so far [H][P + 1]
};

struct TracedText {
  std::vector<double> surprisal;  // -log p in nats of each token but the first
  std::vector<TracedBlock> blocks;
};

// The entropy over heads at each token, divided by log H: 0 sure, 1 undecided; one head: 0.
std::vector<double> membership_entropy(const TracedBlock::ByHead& memberships);

nlohmann::json to_json(const TracedText& text);

}  // namespace tost
