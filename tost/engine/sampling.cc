// Draws a token from logits: penalty, temperature, top-k and top-p.
#include <algorithm>
#include <cmath>

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

double log_total(const float* logits, int64_t count) {
  const float top = *std::max_element(logits, logits + count);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(logits[i] - top);
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
  const auto allowed = int32_t(seen_.size());
  const auto penalty = float(config_.repetition_penalty);
  candidates_.clear();
  for (int32_t id = 0; id < allowed; ++id) {
    float logit = logits[id];
    if (!std::isfinite(logit) || id == unknown_) continue;
    if (penalty != 1 && seen_[size_t(id)]) logit = logit > 0 ? logit / penalty : logit * penalty;
    candidates_.push_back({logit, id});
  }
  if (candidates_.empty()) {
    fail_data("The model gives no finite logit, so no token can be drawn; its weights are broken.");
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (config_.temperature == 0) {
    return std::min_element(candidates_.begin(), candidates_.end(), better)->id;
  }
  size_t count = candidates_.size();
  if (config_.top_k > 0 && size_t(config_.top_k) < count) {
    count = size_t(config_.top_k);
    std::nth_element(candidates_.begin(), candidates_.begin() + int64_t(count) - 1,
                     candidates_.end(), better);
  }
  const auto begin = candidates_.begin(), end = begin + int64_t(count);
  const bool ordered = config_.top_p < 1;
  if (ordered) std::sort(begin, end, better);
  const double top = ordered ? begin->logit : std::min_element(begin, end, better)->logit;
  std::vector<double> weights(count);
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    weights[i] = std::exp((candidates_[i].logit - top) / config_.temperature);
    total += weights[i];
  }
  if (ordered) {
    double reached = 0;
    size_t nucleus = 0;
    while (nucleus < count && reached < config_.top_p * total) reached += weights[nucleus++];
    count = std::max<size_t>(1, nucleus);
  }
  total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] < config_.min_p) weights[i] = 0;  // the most likely one has weight 1
    total += weights[i];
  }
  double left = random.uniform() * total;
  size_t chosen = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return candidates_[chosen].id;
}

}  // namespace tost
