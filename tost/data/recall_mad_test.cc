#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tost/data/recall_test_util.h"
#include "tost/testing/errors.h"

namespace tost {
namespace {

using testing::error_of;
using testing::mentions;

// Training asks for each next token that is not padding (-1: none).
void expect_next_tokens(const RecallSample& sample, int32_t padding = -1) {
  for (size_t i = 0; i + 1 < sample.ids.size(); ++i) {
    const int32_t next = sample.ids[i + 1];
    EXPECT_EQ(sample.targets[i], sample.ids[i] == padding ? -1 : next) << i;
  }
  EXPECT_EQ(sample.targets.back(), -1);
  EXPECT_EQ(std::ssize(sample.distances),
            std::count_if(sample.targets.begin(), sample.targets.end(),
                          [](int32_t t) { return t >= 0; }));
}

// Values of keys that occurred before are asked for, and only these.
void expect_recall(const RecallSample& s, int32_t symbols, int64_t& noise) {
  std::map<int32_t, int32_t> memory;
  for (size_t t = 0; t < s.ids.size(); t += 2) {
    const int32_t key = s.ids[t], value = s.ids[t + 1];
    EXPECT_EQ(s.targets[t + 1], -1);
    if (key >= symbols) {
      EXPECT_GE(value, symbols);
      EXPECT_EQ(s.targets[t], -1);
      ++noise;
      continue;
    }
    EXPECT_LT(key, symbols / 2);
    EXPECT_TRUE(value >= symbols / 2 && value < symbols) << value;
    const auto [found, fresh] = memory.emplace(key, value);
    EXPECT_EQ(found->second, value) << "a key with two values";
    EXPECT_EQ(s.targets[t], fresh ? -1 : value);
  }
  EXPECT_NE(s.targets[s.ids.size() - 2], -1) << "the last pair is asked for";
}

TEST(MadTasks, InContextRecallAsksForValuesOfKnownKeys) {
  const auto source = open_recall({.task = "in-context-recall", .vocab = 16});
  int64_t noise = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const RecallSample s = source->sample({.length = i < 25 ? 128 : 4}, "test", i);
    expect_recall(s, 16, noise);
    expect_answers_where_told(s);
    expect_next_tokens(source->sample({.length = 128}, "train", i));
  }
  EXPECT_EQ(noise, 0);
}

TEST(MadTasks, NoisyRecallHasItsShareOfNoise) {
  for (const double share : {0.0, 0.2, 0.8}) {
    const auto source =
        open_recall({.task = "noisy-in-context-recall", .vocab = 32, .noise = share});
    int64_t noise = 0;
    constexpr int64_t kSamples = 200, kPairs = 64;
    for (int64_t i = 0; i < kSamples; ++i) {
      const RecallSample s = source->sample({.length = 2 * kPairs}, "validation", i);
      expect_recall(s, 16, noise);
      expect_answers_where_told(s);
    }
    // Two pairs of each sample are never noise.
    EXPECT_NEAR(double(noise) / double(kSamples * (kPairs - 2)), share, 0.02);
  }
}

TEST(MadTasks, FuzzyRecallAsksForKeysOfThreeTokens) {
  const auto source = open_recall({.task = "fuzzy-in-context-recall", .vocab = 16});
  constexpr int32_t kPadding = 15, kValues = 7;
  for (int64_t i = 0; i < 200; ++i) {
    const RecallSample s = source->sample({.length = i < 100 ? 128 : 24}, "test", i);
    expect_answers_where_told(s);
    EXPECT_NE(s.targets[s.ids.size() - 2], -1) << "the last value is asked for";
    // Motifs in turn: three of the lower half, then one to three of the upper.
    std::map<std::vector<int32_t>, std::vector<int32_t>> memory;
    size_t t = size_t(std::count(s.ids.begin(), s.ids.end(), kPadding));
    EXPECT_TRUE(std::all_of(s.ids.begin(), s.ids.begin() + int64_t(t),
                            [](int32_t id) { return id == kPadding; }));
    while (t < s.ids.size()) {
      std::vector<int32_t> key, value;
      for (; t < s.ids.size() && s.ids[t] < kValues; ++t) key.push_back(s.ids[t]);
      const size_t first = t;
      for (; t < s.ids.size() && s.ids[t] >= kValues; ++t) value.push_back(s.ids[t]);
      EXPECT_EQ(key.size(), 3u);
      EXPECT_TRUE(!value.empty() && value.size() <= 3) << value.size();
      EXPECT_EQ(std::set<int32_t>(key.begin(), key.end()).size(), 3u);
      const auto [found, fresh] = memory.emplace(key, value);
      EXPECT_EQ(found->second, value) << "a key with two values";
      for (size_t j = first; j < t; ++j) {
        EXPECT_EQ(s.targets[j - 1], fresh ? -1 : s.ids[j]);
      }
    }
    expect_next_tokens(source->sample({.length = 128}, "train", i), kPadding);
  }
  std::set<size_t> sizes;  // of keys, in training
  for (int64_t i = 0; i < 50; ++i) {
    const auto ids = source->sample({.length = 128}, "train", i).ids;
    size_t size = 0;
    for (const int32_t id : ids) {
      if (id < kValues) {
        ++size;
      } else if (const size_t key = std::exchange(size, 0); key > 0) {
        sizes.insert(key);
      }
    }
  }
  EXPECT_EQ(sizes, (std::set<size_t>{1, 2, 3}));
}

TEST(MadTasks, SelectiveCopyingRepeatsTheSymbols) {
  const auto source = open_recall({.task = "selective-copying", .vocab = 16});
  for (const char* split : {"train", "test"}) {
    for (int64_t i = 0; i < 50; ++i) {
      const int64_t length = i < 25 ? 100 : 33, sign = length - 17;
      const RecallSample s = source->sample({.length = length, .pairs = 16}, split, i);
      expect_answers_where_told(s);
      std::vector<int32_t> symbols;
      for (int64_t t = 0; t < sign; ++t) {
        if (s.ids[size_t(t)] != 14) symbols.push_back(s.ids[size_t(t)]);
        EXPECT_EQ(s.targets[size_t(t)], -1);
      }
      ASSERT_EQ(symbols.size(), 16u);
      EXPECT_LT(*std::max_element(symbols.begin(), symbols.end()), 14);
      EXPECT_EQ(s.ids[size_t(sign)], 15);
      EXPECT_EQ(s.targets[size_t(sign)], -1);
      for (int64_t j = 0; j < 16; ++j) {
        EXPECT_EQ(s.ids[size_t(sign + 1 + j)], 14);
        EXPECT_EQ(s.targets[size_t(sign + 1 + j)], symbols[size_t(j)]);
      }
    }
  }
}

TEST(MadTasks, MemorizationHasOneValueAKeyInAllSeedsAndSplits) {
  std::map<int32_t, int32_t> memory;
  std::set<int32_t> values;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto source = open_recall({.task = "memorization", .seed = seed, .vocab = 64});
    for (const char* split : {"train", "validation", "test"}) {
      for (int64_t i = 0; i < 50; ++i) {
        const RecallSample s = source->sample({.length = 32}, split, i);
        for (size_t t = 0; t < 32; t += 2) {
          EXPECT_LT(s.ids[t], 31);
          EXPECT_EQ(s.ids[t + 1], 63);
          EXPECT_EQ(s.targets[t], -1);
          const int32_t value = s.targets[t + 1];
          EXPECT_TRUE(value >= 31 && value < 63) << value;
          EXPECT_EQ(memory.emplace(s.ids[t], value).first->second, value);
          values.insert(value);
        }
      }
    }
  }
  EXPECT_EQ(memory.size(), 31u);
  EXPECT_EQ(values.size(), 31u);
}

TEST(MadTasks, CompressionAsksForEverythingThatWasRead) {
  const auto source = open_recall({.task = "compression", .vocab = 16});
  EXPECT_TRUE(source->restores());
  EXPECT_FALSE(open_recall({.task = "memorization"})->restores());
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 50; ++i) {
    const RecallSample s = source->sample({.length = 32}, "train", i);
    EXPECT_EQ(s.targets, s.ids);
    EXPECT_EQ(s.ids.back(), 15);
    EXPECT_EQ(s.distances.front(), 31);
    EXPECT_EQ(s.distances.back(), 0);
    seen.insert(s.ids.begin(), s.ids.end() - 1);
  }
  EXPECT_EQ(seen.size(), 15u);
  EXPECT_EQ(*seen.rbegin(), 14);
}

TEST(MadTasks, RefuseWhatCannotBe) {
  const auto refused = [](const RecallSpec& spec, const RecallCase& size, const char* word) {
    const std::string error = error_of([&] { open_recall(spec)->sample(size, "test", 0); });
    EXPECT_TRUE(mentions(error, word)) << word << ": " << error;
  };
  refused({.task = "in-context-recall", .vocab = 1}, {}, "needs 2");
  refused({.task = "in-context-recall"}, {.length = 2}, "at least 4");
  refused({.task = "in-context-recall"}, {.length = 7}, "odd");
  refused({.task = "noisy-in-context-recall", .vocab = 17}, {}, "needs 18");
  refused({.task = "noisy-in-context-recall", .noise = 1}, {}, "noise is 1");
  refused({.task = "fuzzy-in-context-recall", .vocab = 7}, {}, "needs 8");
  refused({.task = "fuzzy-in-context-recall"}, {.length = 23}, "at least 24");
  refused({.task = "selective-copying", .vocab = 2}, {}, "needs 3");
  refused({.task = "selective-copying"}, {.length = 16, .pairs = 8}, "at least 17");
  refused({.task = "selective-copying"}, {.pairs = 0}, "symbol");
  refused({.task = "memorization", .vocab = 2}, {}, "needs 3");
  refused({.task = "memorization"}, {.length = 3}, "odd");
  refused({.task = "compression"}, {.length = 1}, "at least 2");
}

}  // namespace
}  // namespace tost
