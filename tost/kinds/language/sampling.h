// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/base/random.h"

namespace tost {

struct SamplingConfig {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // only the fewest whose probabilities reach p
  double min_p = 0;        // only those at least this share of the most likely one's probability
  double repetition_penalty =
      1;  // logits of tokens seen before: divided if positive, else multiplied
};

// Throws a usage Error naming the setting: temperature negative or not finite, top_p outside (0,
// 1], min_p outside [0, 1], top_k negative, repetition_penalty outside [0.01, 100].
void check_sampling(const SamplingConfig& config);

// Draws tokens. Deterministic: the same logits, settings and generator state give the same token on
// every machine that computes the same logits.
class Sampler {
 public:
  // Tokens from `allowed` on (rows that pad a vocabulary) and `unknown` (-1: none) are never drawn.
  Sampler(const SamplingConfig& config, int64_t allowed, int64_t unknown = -1);

  // The penalty is meant for `id` from now on.
  void note(int64_t id);
  const std::vector<char>& seen() const { return seen_; }

  // logits: at least `allowed` floats. Throws a data Error when none of them is finite. Filters in
  // the order penalty, temperature, top-k, top-p, min-p; ties go to the smaller id.
  int64_t draw(const float* logits, Random& random);

 private:
  SamplingConfig config_;
  int64_t unknown_;
  std::vector<char> seen_;  // by id
  struct Candidate {
    float logit;
    int32_t id;
  };
  std::vector<Candidate> candidates_;
};

}  // namespace tost
