#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "tost/base/error.h"
#include "tost/engine/generate.h"

namespace tost {
namespace {

std::set<int64_t> drawn(const SamplingConfig& config, const std::vector<float>& logits) {
  Sampler sampler(config, int64_t(logits.size()));
  Random random(1);
  std::set<int64_t> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(sampler.draw(logits.data(), random));
  return ids;
}

// Probabilities 0.5, 0.3, 0.15, 0.05 in shuffled places.
const std::vector<float> kLogits{std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};

TEST(Sampler, FiltersKeepWhatTheyShould) {
  EXPECT_EQ(drawn({}, kLogits), (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.temperature = 0}, kLogits), (std::set<int64_t>{1}));
  EXPECT_EQ(drawn({.top_k = 2}, kLogits), (std::set<int64_t>{1, 3}));
  EXPECT_EQ(drawn({.top_k = 9}, kLogits), (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.top_p = 0.45}, kLogits), (std::set<int64_t>{1}));
  EXPECT_EQ(drawn({.top_p = 0.7}, kLogits), (std::set<int64_t>{1, 3}));
  EXPECT_EQ(drawn({.min_p = 0.25}, kLogits), (std::set<int64_t>{0, 1, 3}));
  EXPECT_EQ(drawn({.top_k = 3, .top_p = 0.8}, kLogits), (std::set<int64_t>{1, 3}));
  EXPECT_EQ(drawn({.temperature = 1e-300}, kLogits), (std::set<int64_t>{1}));
  EXPECT_EQ(drawn({.top_k = 2}, {1, 1, 1, 1}), (std::set<int64_t>{0, 1}));
}

// Of many logits, in a range that reaches where exponentials vanish.
TEST(Sampler, NucleusIsTheSmallestOfItsPart) {
  Random random(3);
  std::vector<float> logits(3000);
  for (float& logit : logits) logit = float(random.normal() * 2);
  logits[7] = -1000;
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  double all = 0, reached = 0;
  for (const float logit : logits) all += std::exp(double(logit));
  EXPECT_NEAR(log_total(logits.data(), int64_t(logits.size())), std::log(all), 1e-9);
  std::set<int64_t> nucleus;
  for (size_t i = 0; reached < 0.2 * all; ++i) {
    nucleus.insert(order[i]);
    reached += std::exp(double(logits[size_t(order[i])]));
  }
  EXPECT_GT(nucleus.size(), 3);
  EXPECT_EQ(drawn({.top_p = 0.2}, logits), nucleus);
}

TEST(Sampler, TotalsSpreadWhatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t place : {0, 5, 17}) {
    std::vector<float> logits(20, 1.0f);
    logits[place] = nan;
    EXPECT_TRUE(std::isnan(log_total(logits.data(), 20)));
    logits[place] = -std::numeric_limits<float>::infinity();
    EXPECT_NEAR(log_total(logits.data(), 20), 1 + std::log(19.0), 1e-12);
  }
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  Sampler sampler({}, 4);
  Random random(5);
  int count[4] = {};
  for (int i = 0; i < 40000; ++i) ++count[sampler.draw(kLogits.data(), random)];
  EXPECT_NEAR(count[1] / 40000.0, 0.5, 0.01);
  EXPECT_NEAR(count[2] / 40000.0, 0.05, 0.005);
}

TEST(Sampler, PenaltyLowersSeenTokensOfEitherSign) {
  Sampler sampler({.temperature = 0, .repetition_penalty = 2}, 3);
  Random random(1);
  const float logits[] = {3, 2, -1};
  EXPECT_EQ(sampler.draw(logits, random), 0);
  sampler.note(0);
  EXPECT_EQ(sampler.draw(logits, random), 1);
  const float negative[] = {-1, -1.5, -9};
  EXPECT_EQ(sampler.draw(negative, random), 1);
}

TEST(Sampler, PenaltyKeepsLogitsFinite) {
  std::vector<float> logits(200, 0.0f);
  logits[150] = 3e37f;
  Sampler raised({.top_p = 0.9, .repetition_penalty = 0.01}, 200);
  Random random(1);
  raised.note(150);
  EXPECT_EQ(raised.draw(logits.data(), random), 150);
  const float lowest[] = {-1e38f};
  Sampler lowered({.repetition_penalty = 100}, 1);
  lowered.note(0);
  EXPECT_EQ(lowered.draw(lowest, random), 0);
}

// Of a flat distribution, whose weights are all in one bucket.
TEST(Sampler, EqualLogitsAreFilteredById) {
  const std::vector<float> logits(100, 2.0f);
  const auto some = drawn({.top_p = 0.0301}, logits);
  EXPECT_EQ(some, (std::set<int64_t>{0, 1, 2, 3}));
}

// The same on every machine, processor and compiler.
TEST(Sampler, SeedDecidesWhatIsDrawn) {
  Random numbers(11);
  std::vector<float> logits(777);
  for (float& logit : logits) logit = float(numbers.uniform(-9, 9));
  const auto ids = [&](const SamplingConfig& config) {
    Sampler sampler(config, 777);
    Random random(12);
    std::vector<int64_t> drawn;
    for (int i = 0; i < 6; ++i) drawn.push_back(sampler.draw(logits.data(), random));
    return drawn;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(ids({}), (Ids{492, 575, 234, 722, 303, 167}));
  EXPECT_EQ(ids({.temperature = 3, .top_k = 100}), (Ids{481, 575, 237, 736, 303, 177}));
  EXPECT_EQ(ids({.temperature = 1.7, .top_p = 0.8}), (Ids{484, 572, 230, 722, 290, 167}));
  const double total = log_total(logits.data(), 777);
  EXPECT_NEAR(total, 12.952792026869126, 1e-14);
}

TEST(Sampler, NeverDrawsTheUnknownToken) {
  const float logits[] = {9, 1, 1};
  Random random(1);
  EXPECT_EQ(Sampler({.temperature = 0}, 3, 0).draw(logits, random), 1);
  Sampler sampler({}, 3, 0);
  for (int i = 0; i < 50; ++i) EXPECT_NE(sampler.draw(logits, random), 0);
}

TEST(Sampler, IgnoresPaddingRowsAndBrokenLogits) {
  Sampler sampler({.temperature = 0}, 2);
  Random random(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float logits[] = {nan, 1, 100};
  EXPECT_EQ(sampler.draw(logits, random), 1);
  const float broken[] = {nan, nan, 1};
  EXPECT_THROW(sampler.draw(broken, random), Error);
}

TEST(Sampler, RefusesImpossibleSettings) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SamplingConfig& config :
       {SamplingConfig{.temperature = -1}, SamplingConfig{.temperature = nan},
        SamplingConfig{.top_k = -1}, SamplingConfig{.top_p = 0}, SamplingConfig{.top_p = 1.1},
        SamplingConfig{.min_p = -0.1}, SamplingConfig{.repetition_penalty = 0}}) {
    EXPECT_THROW(check_sampling(config), Error);
  }
}

}  // namespace
}  // namespace tost
