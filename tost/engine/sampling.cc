// Draws a token from logits: penalty, temperature, top-k, top-p and min-p.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tost/base/error.h"
#include "tost/engine/generate.h"

namespace tost {

void check_sampling(const SamplingConfig& c) {
  if (!(c.temperature >= 0) || !std::isfinite(c.temperature)) {
    fail_usage("temperature is ", c.temperature,
               "; it must be 0 (the most likely token) or above.");
  }
  if (!(c.top_p > 0 && c.top_p <= 1)) {
    fail_usage("top-p is ", c.top_p, "; it must be above 0 and at most 1 (all tokens).");
  }
  if (!(c.min_p >= 0 && c.min_p <= 1)) {
    fail_usage("min-p is ", c.min_p, "; it must be from 0 (all tokens) to 1.");
  }
  if (c.top_k < 0) fail_usage("top-k is ", c.top_k, "; it must be 0 (all tokens) or above.");
  if (!(c.repetition_penalty >= 0.01 && c.repetition_penalty <= 100)) {
    fail_usage("repetition-penalty is ", c.repetition_penalty,
               "; it must be from 0.01 to 100, and 1 means none.");
  }
}

namespace {

constexpr size_t kBlock = 64;  // weights that draw() passes over at once
constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Four values, in two vectors that every CPU has.
constexpr size_t kLanes = 4;
struct Lanes {
  using Pair = double __attribute__((vector_size(16)));
  Pair pairs[2];

  // Replaces each value by f(value, the ones of `others`). The steps of both vectors alternate,
  // which hides their latency.
  template <class F, class... Others>
  void each(const F& f, const Others&... others) {
    for (size_t i = 0; i < 2; ++i) pairs[i] = f(pairs[i], others.pairs[i]...);
  }
};

// Replaces x <= 0 by e^x with a relative error below 3e-10, and by 0 below -700. Uses no function
// of a library and no fused multiply-add, so that every machine computes the same bits.
inline void exp_nonpositive(Lanes& x) {
  using Pair = Lanes::Pair;
  using Bits = uint64_t __attribute__((vector_size(16)));
  constexpr double kLogTwo = 0x1.62e42feep-1, kRest = 0x1.a39ef35793c76p-33;  // their sum is ln 2
  constexpr double kShift = 0x1.8p52;  // puts the nearest integer into the last bits of a sum
  Lanes r = x, shifted{}, sum{};
  r.each([](Pair v) { return v < -700 ? Pair{-700, -700} : v; });
  shifted.each([](Pair, Pair v) { return v * 0x1.71547652b82fep+0 + kShift; }, r);
  r.each([](Pair v, Pair s) { return v - (s - kShift) * kLogTwo - (s - kShift) * kRest; }, shifted);
  sum.each([](Pair, Pair v) { return v * (1.0 / 40320) + 1.0 / 5040; }, r);
  for (const double term : {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0}) {
    sum.each([term](Pair s, Pair v) { return s * v + term; }, r);
  }
  sum.each([](Pair s, Pair k) { return Pair(Bits(s) + (Bits(k) << 52)); }, shifted);
  x.each([](Pair v, Pair s) { return v < -700 ? Pair{} : s; }, sum);
}

// Writes e^((score - top) / temperature).
void weigh(const float* scores, size_t count, double top, double temperature, double* weights) {
  const double cold = std::min(1 / temperature, 1e300);
  for (size_t i = 0; i < count; i += kLanes) {
    float some[kLanes] = {};
    const size_t now = std::min(kLanes, count - i);
    std::copy_n(scores + i, now, some);
    Lanes x{{{some[0], some[1]}, {some[2], some[3]}}};
    x.each([&](Lanes::Pair v) { return (v - top) * cold; });
    exp_nonpositive(x);
    std::memcpy(weights + i, &x, now * sizeof(double));
  }
}

float largest(const float* values, size_t count) {
  float lanes[16], top = kNone;
  std::fill_n(lanes, 16, kNone);
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (size_t l = 0; l < 16; ++l) lanes[l] = lanes[l] < values[i + l] ? values[i + l] : lanes[l];
  }
  for (; i < count; ++i) top = std::max(top, values[i]);
  for (const float lane : lanes) top = std::max(top, lane);
  return top;
}

// Adds in the same order on every machine.
double sum_of(const double* values, size_t count) {
  double lanes[8] = {}, total = 0;
  const double *end = values + count, *whole = end - count % 8;
  for (; values != whole; values += 8) {
    for (size_t l = 0; l < 8; ++l) lanes[l] += values[l];
  }
  for (; values != end; ++values) total += *values;
  for (const double lane : lanes) total += lane;
  return total;
}

// The bucket of a weight: 0 for 1, k for those below 2^(1 - k); the last one has all smaller ones.
constexpr size_t kBuckets = 64;
size_t bucket_of(double weight) {
  return std::min<size_t>(kBuckets - 1, 1023 - (std::bit_cast<uint64_t>(weight) >> 52));
}

}  // namespace

double log_total(const float* logits, int64_t count) {
  constexpr size_t kAtOnce = 1024;
  const size_t all = size_t(count);
  const double top = largest(logits, all);
  double weights[kAtOnce], total = 0;
  for (size_t i = 0; i < all; i += kAtOnce) {
    const size_t some = std::min(kAtOnce, all - i);
    weigh(logits + i, some, top, 1, weights);
    total += sum_of(weights, some);
  }
  return top + std::log(total);
}

Sampler::Sampler(const SamplingConfig& config, int64_t allowed, int64_t unknown)
    : config_(config), unknown_(unknown), seen_(size_t(allowed), 0) {
  check_sampling(config);
}

void Sampler::note(int64_t id) {
  if (id >= 0 && id < int64_t(seen_.size())) seen_[size_t(id)] = 1;
}

int64_t Sampler::draw(const float* logits, Random& random) {
  const size_t allowed = seen_.size();
  const auto penalty = float(config_.repetition_penalty);
  scores_.resize(allowed);
  for (size_t id = 0; id < allowed; ++id) {
    scores_[id] = std::abs(logits[id]) <= kLargest ? logits[id] : kNone;
  }
  for (size_t id = 0; penalty != 1 && id < allowed; ++id) {
    float& score = scores_[id];
    if (!seen_[id] || score == kNone) continue;
    score = std::clamp(score > 0 ? score / penalty : score * penalty, -kLargest, kLargest);
  }
  if (unknown_ >= 0 && size_t(unknown_) < allowed) scores_[size_t(unknown_)] = kNone;
  const float top = largest(scores_.data(), allowed);
  if (top == kNone) {
    fail_data("The model gives no finite logit, so no token can be drawn; its weights are broken.");
  }
  if (config_.temperature == 0) {
    return std::find(scores_.begin(), scores_.end(), top) - scores_.begin();
  }
  ids_.clear();  // of all scores
  if (config_.top_k > 0 && size_t(config_.top_k) < allowed) keep_best(size_t(config_.top_k));
  const size_t count = scores_.size();
  weights_.resize(count);
  weigh(scores_.data(), count, top, config_.temperature, weights_.data());
  if (config_.top_p < 1) keep_part(config_.top_p);
  for (size_t i = 0; config_.min_p > 0 && i < count; ++i) {
    if (weights_[i] < config_.min_p) weights_[i] = 0;
  }
  const double* weights = weights_.data();
  double left = random.uniform() * sum_of(weights, count);
  size_t i = 0;
  for (double block; i + kBlock < count; i += kBlock, left -= block) {
    block = sum_of(weights + i, kBlock);
    if (left < block) break;
  }
  while (i + 1 < count && left >= weights[i]) left -= weights[i++];
  // A sum's rounding can lead past the last weight above 0.
  if (weights[i] == 0) i = size_t(std::max_element(weights, weights + count) - weights);
  return ids_.empty() ? int64_t(i) : ids_[i];
}

// Removes all scores but the largest ones.
void Sampler::keep_best(size_t count) {
  ids_.resize(scores_.size());
  std::iota(ids_.begin(), ids_.end(), 0);
  std::nth_element(ids_.begin(), ids_.begin() + int64_t(count), ids_.end(),
                   [&](size_t a, size_t b) {
                     return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
                   });
  ids_.resize(count);
  std::sort(ids_.begin(), ids_.end());
  for (size_t i = 0; i < count; ++i) scores_[i] = scores_[size_t(ids_[i])];
  scores_.resize(count);
}

// Sets all weights to 0 but the fewest that reach `part` of all. Sorts only those of one bucket.
void Sampler::keep_part(double part) {
  double mass[kBuckets] = {}, reached = 0;
  for (const double weight : weights_) mass[bucket_of(weight)] += weight;
  const double wanted = sum_of(weights_.data(), weights_.size()) * part;
  size_t edge = 0;
  while (edge + 1 < kBuckets && reached + mass[edge] < wanted) reached += mass[edge++];
  std::vector<size_t> border;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (bucket_of(weights_[i]) == edge) border.push_back(i);
    if (bucket_of(weights_[i]) > edge) weights_[i] = 0;
  }
  std::sort(border.begin(), border.end(), [&](size_t a, size_t b) {
    return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
  });
  for (const size_t i : border) {
    if (reached < wanted) {
      reached += weights_[i];
    } else {
      weights_[i] = 0;
    }
  }
}

}  // namespace tost
