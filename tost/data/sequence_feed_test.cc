#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/data/sequence_batch.h"

namespace tost {
namespace {

// Sequence i is its own number, i + 1 times; number `bad` cannot be had.
class Numbers : public SequenceDataset {
 public:
  explicit Numbers(int64_t bad = -1) : bad_(bad) {}
  int64_t size() const override { return 20; }
  SequenceSample sample(int64_t i) const override {
    if (i == bad_) fail_data("number ", i, " is bad");
    return {std::vector<int32_t>(size_t(i + 1), int32_t(i + 1)), {}, i % 2};
  }
  int64_t label(int64_t i) const override { return i % 2; }
  int64_t length(int64_t i) const override { return i + 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  SequenceCoding coding() const override { return {"bytes", 257, false}; }
  std::string format() const override { return "text"; }
  std::string name(int64_t i) const override { return cat(i); }

 private:
  int64_t bad_;
  std::vector<std::string> classes_{"even", "odd"};
};

const std::vector<std::vector<int64_t>> kBatches{{0, 1}, {5}, {2, 3, 4}, {19, 7}};

TEST(SequenceFeed, GivesTheBatchesInOrderFromAnyPlace) {
  const auto data = std::make_shared<Numbers>();
  for (int64_t k = 0; k < 25; ++k) {
    const int64_t first = k % 5, ahead = k / 5, workers = (k / 5 + k) % 4;
    SequenceFeed feed(data, kBatches, first, ahead, workers);
    for (size_t i = size_t(first); i < kBatches.size(); ++i) {
      const auto batch = feed.next();
      ASSERT_TRUE(batch);
      const SequenceBatch wanted = make_sequence_batch(*data, kBatches[i]);
      EXPECT_TRUE(torch::equal(batch->ids, wanted.ids));
      EXPECT_TRUE(torch::equal(batch->labels, wanted.labels));
    }
    EXPECT_FALSE(feed.next());
    EXPECT_FALSE(feed.next());
  }
}

TEST(SequenceFeed, PassesAFailureOnAtItsBatch) {
  for (const int64_t workers : {1, 3}) {
    SequenceFeed feed(std::make_shared<Numbers>(3), kBatches, 0, 4, workers);
    EXPECT_TRUE(feed.next());
    EXPECT_TRUE(feed.next());
    EXPECT_THROW(feed.next(), Error);
    EXPECT_THROW(feed.next(), Error);
  }
}

// Two samples that each wait for the other come only from two threads.
class Meeting : public Numbers {
 public:
  SequenceSample sample(int64_t i) const override {
    std::unique_lock lock(mutex_);
    ++here_;
    arrived_.notify_all();
    if (!arrived_.wait_for(lock, std::chrono::minutes(5), [&] { return here_ >= 2; })) {
      fail_data("nobody else came");
    }
    return Numbers::sample(i);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  mutable int here_ = 0;
};

TEST(SequenceFeed, DrawsSeveralBatchesAtATime) {
  SequenceFeed feed(std::make_shared<Meeting>(), {{1}, {2}}, 0, 2, 2);
  EXPECT_TRUE(feed.next());
  EXPECT_TRUE(feed.next());
}

TEST(SequenceFeed, CanBeLeftAtAnyTime) {
  std::vector<std::vector<int64_t>> many(200, {19, 18, 17});
  for (int i = 0; i < 5; ++i) {
    SequenceFeed feed(std::make_shared<Numbers>(), many, 0, 2);
    EXPECT_TRUE(i == 0 || feed.next());
  }
}

}  // namespace
}  // namespace tost
