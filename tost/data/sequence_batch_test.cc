// Batches of sequences: padding, order, sorting by length.
#include "tost/data/sequence_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tost/base/error.h"

namespace tost {
namespace {

// Sample i has `lengths[i]` tokens of value i + 1.
class Lengths : public SequenceDataset {
 public:
  explicit Lengths(std::vector<int64_t> lengths, bool pairs = false)
      : lengths_(std::move(lengths)), pairs_(pairs) {}
  int64_t size() const override { return static_cast<int64_t>(lengths_.size()); }
  SequenceSample sample(int64_t i) const override {
    SequenceSample sample;
    sample.tokens.assign(static_cast<size_t>(length(i)), static_cast<int32_t>(i + 1));
    if (pairs_) sample.second = {9, static_cast<int32_t>(i + 1)};
    sample.label = label(i);
    return sample;
  }
  int64_t label(int64_t i) const override { return i % 2; }
  int64_t length(int64_t i) const override { return lengths_[static_cast<size_t>(i)]; }
  const std::vector<std::string>& classes() const override { return classes_; }
  SequenceCoding coding() const override { return {"bytes", 257, pairs_}; }
  std::string format() const override { return "text"; }
  std::string name(int64_t) const override { return "made"; }

 private:
  std::vector<int64_t> lengths_;
  bool pairs_;
  std::vector<std::string> classes_ = {"even", "odd"};
};

std::vector<int64_t> many_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + i * 37 % 101);
  return lengths;
}

int64_t padding(const Lengths& data, const std::vector<std::vector<int64_t>>& batches) {
  int64_t padding = 0;
  for (const auto& batch : batches) {
    int64_t longest = 0;
    for (const int64_t i : batch) longest = std::max(longest, data.length(i));
    for (const int64_t i : batch) padding += longest - data.length(i);
  }
  return padding;
}

void expect_each_once(const std::vector<std::vector<int64_t>>& batches, int64_t size) {
  std::multiset<int64_t> seen;
  for (const auto& batch : batches) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
  EXPECT_EQ(static_cast<int64_t>(std::set<int64_t>(seen.begin(), seen.end()).size()), size);
}

TEST(SequenceBatchTest, PadsToTheLongestOfTheBatch) {
  const Lengths data({3, 1, 2, 5});
  const SequenceBatch batch = make_sequence_batch(data, {1, 0, 2});
  EXPECT_TRUE(
      torch::equal(batch.ids, torch::tensor({{2, 0, 0}, {1, 1, 1}, {3, 3, 0}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.lengths, torch::tensor({1, 3, 2}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.labels, torch::tensor({1, 0, 0}, torch::kInt64)));
  EXPECT_FALSE(batch.second.defined());
}

TEST(SequenceBatchTest, PairsHaveASecondDocument) {
  const SequenceBatch batch = make_sequence_batch(Lengths({3, 1}, true), {0, 1});
  EXPECT_TRUE(torch::equal(batch.second, torch::tensor({{9, 1}, {9, 2}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.second_lengths, torch::tensor({2, 2}, torch::kInt64)));
}

TEST(SequenceBatchTest, EverySampleOnceAndAPureFunction) {
  const Lengths data(many_lengths(103));
  for (const int64_t groups : {1, 4, 1000}) {
    const SequenceOrder order{true, groups, 7};
    const auto batches = sequence_batches(data, 8, order, 2, false);
    EXPECT_EQ(batches.size(), 13u);
    expect_each_once(batches, 103);
    EXPECT_EQ(batches, sequence_batches(data, 8, order, 2, false));
    EXPECT_NE(batches, sequence_batches(data, 8, order, 3, false));
    EXPECT_NE(batches, sequence_batches(data, 8, {true, groups, 8}, 2, false));
    const auto full = sequence_batches(data, 8, order, 2, true);
    EXPECT_EQ(full.size(), 12u);
    expect_each_once(full, 96);
    for (const auto& batch : full) EXPECT_EQ(batch.size(), 8u);
  }
}

TEST(SequenceBatchTest, WithoutShufflingTheOrderStays) {
  const Lengths data(many_lengths(5));
  const auto batches = sequence_batches(data, 2, {}, 9, false);
  EXPECT_EQ(batches, (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}}));
}

TEST(SequenceBatchTest, SortingRunsByLengthSavesPadding) {
  const Lengths data(many_lengths(512));
  const int64_t plain = padding(data, sequence_batches(data, 8, {true, 1, 1}, 0, false));
  const int64_t some = padding(data, sequence_batches(data, 8, {true, 8, 1}, 0, false));
  const int64_t all = padding(data, sequence_batches(data, 8, {true, 64, 1}, 0, false));
  EXPECT_LT(some, plain / 3);
  EXPECT_LT(all, some);
}

TEST(SequenceBatchTest, BatchesOfRunsComeInAnyOrder) {
  const Lengths data(many_lengths(512));
  const auto batches = sequence_batches(data, 8, {true, 64, 1}, 0, false);
  std::vector<int64_t> first;
  for (const auto& batch : batches) first.push_back(data.length(batch[0]));
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(SequenceBatchTest, RefusesImpossibleBatches) {
  const Lengths data({1, 2});
  EXPECT_THROW(sequence_batches(data, 0, {}, 0, false), Error);
  EXPECT_THROW(sequence_batches(data, 2, {false, 0, 0}, 0, false), Error);
  EXPECT_TRUE(sequence_batches(data, 3, {}, 0, true).empty());
}

}  // namespace
}  // namespace tost
