// The estimate of memory against what a training step takes from the block cache.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <string>

#include "tost/kernels/block_cache.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/ops/caching_allocator.h"

namespace tost {
namespace sequence_cost_test {

SequenceConfig small(const std::string& mixer) {
  auto c = sequence_preset("tost_seq_tiny");
  c.mixer = mixer;
  return c;
}

// Highest use above what there was before, over two steps: the first makes the moments.
int64_t measured_bytes(const SequenceConfig& config, int64_t batch, int64_t tokens) {
  auto& cache = BlockCache::instance();
  const int64_t before = cache.stats().in_use_bytes;
  cache.reset_peak();
  torch::manual_seed(1);
  const auto model = make_sequence_classifier(config);
  torch::optim::AdamW adamw(model->parameters());
  for (int step = 0; step < 2; ++step) {
    const auto ids = torch::randint(1, config.vocab, {batch, tokens}, torch::kLong);
    const auto lengths = torch::arange(tokens, tokens - batch, -1, torch::kLong);
    const SequenceInput input{ids, lengths};
    adamw.zero_grad();
    const auto logits = config.pairs ? model->forward(input, input) : model->forward(input);
    torch::cross_entropy_loss(logits, torch::zeros({batch}, torch::kLong)).backward();
    adamw.step();
  }
  return cache.stats().peak_bytes - before;
}

class SequenceMemory : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!install_caching_allocator()) GTEST_SKIP() << "TOST_ALLOCATOR=system: nothing counts";
  }
};

void expect_near_estimate(const SequenceConfig& config, int64_t batch, int64_t tokens) {
  const double measured = double(measured_bytes(config, batch, tokens));
  const double ratio = double(sequence_training_bytes(config, batch, tokens)) / measured;
  EXPECT_GT(ratio, 1 / 1.5) << config.mixer << " measured " << measured;
  EXPECT_LT(ratio, 1.5) << config.mixer << " measured " << measured;
}

TEST_P(SequenceMemory, IsEstimatedWithinAFactorOfOneAndAHalf) {
  auto config = small(GetParam());
  expect_near_estimate(config, 4, 500);
  config.dropout = 0.1;
  config.depth = 4;
  config.pool = "class";
  expect_near_estimate(config, 3, 300);
}

INSTANTIATE_TEST_SUITE_P(Registry, SequenceMemory, ::testing::ValuesIn(mixer_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(SequenceMemory, OfPairsAndOfManyParameters) {
  auto pairs = small("tssa");
  pairs.pairs = true;
  expect_near_estimate(pairs, 2, 400);
  auto wide = small("tssa");
  wide.dim = 256;
  wide.positions = "learned";
  expect_near_estimate(wide, 1, 20);
}

TEST(SequenceCost, HostileSizesDoNotWrap) {
  EXPECT_EQ(sequence_training_bytes(small("tssa"), INT64_MAX, INT64_MAX), INT64_MAX);
  EXPECT_GT(sequence_training_bytes(small("tssa"), int64_t{1} << 40, 1000), int64_t{1} << 50);
}

}  // namespace sequence_cost_test
}  // namespace tost
