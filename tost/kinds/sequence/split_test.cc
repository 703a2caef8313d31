// Whole classifiers whose sequences lie on several processes.
#include <gtest/gtest.h>

#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/task.h"
#include "tost/nn/metrics.h"
#include "tost/train/split_model_test_util.h"

namespace tost {
namespace {

using torch::Tensor;

struct SplitSequences {
  const char* mixer;
  const char* pool;
  const char* positions;
  bool pairs = false, padded = false;
};

constexpr SplitSequences kSplitSequences[] = {{"tssa", "class", "learned", false, true},
                                              {"tssa", "mean", "sinusoidal", true, true},
                                              {"tssa", "mean", "none"},
                                              {"tssa", "class", "sinusoidal", false, true},
                                              {"uniform", "mean", "learned", false, true},
                                              {"uniform", "class", "none"},
                                              {"none", "mean", "learned"}};

std::shared_ptr<SequenceClassifier> split_classifier(const SplitSequences& of, int64_t tokens,
                                                     int64_t depth) {
  SequenceConfig config;
  config.vocab = 11, config.dim = 24, config.heads = 3, config.depth = depth, config.classes = 3;
  config.max_length = tokens;
  config.mixer = of.mixer, config.pool = of.pool, config.positions = of.positions;
  config.pairs = of.pairs;
  torch::manual_seed(3);
  auto model = make_sequence_classifier(config);
  const torch::NoGradGuard no_grad;
  for (Tensor& p : model->parameters()) p += 0.1 * torch::randn_like(p);
  model->train();
  return model;
}

// Where they are padded, whole parts of a sequence are padding.
testing::SharedLoss split_sequence_loss(SequenceClassifier& model, const SplitSequences& of,
                                        int64_t tokens) {
  torch::manual_seed(4);
  const auto ids = [&] { return torch::randint(1, 11, {2, tokens}, torch::kLong); };
  SequenceBatch batch;
  batch.ids = ids();
  if (of.padded) batch.lengths = torch::tensor({tokens / 5, tokens - 1}, torch::kLong);
  if (of.pairs) batch.second = ids();
  batch.labels = torch::tensor({2, 0}, torch::kLong);
  return [&model, batch](const BatchShare& share) {
    const TaskInput input = sequence_input(share, batch);
    const auto& t = input.tensors;
    const Tensor logits =
        t[2].defined() ? model.forward({t[0], t[1]}, {t[2], t[3]}) : model.forward({t[0], t[1]});
    return classification_loss(logits, t[4]) * input.weight;
  };
}

class SplitSequence : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, SplitSequence, ::testing::Values(2, 4));

// 30 tokens are padded to 32 for four processes; of 32 positions.
TEST_P(SplitSequence, ModelsAreThoseOfOneProcess) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    for (const SplitSequences& one : kSplitSequences) {
      const auto model = split_classifier(one, 32, 2);
      const auto loss = split_sequence_loss(*model, one, 30);
      testing::expect_split_equal(group, *model, loss, 1e-13, cat(one.mixer, " ", one.pool));
    }
  });
}

// Per layer, from models of one and of two.
TEST_P(SplitSequence, SlowMessagesDoNotGrowWithTheSequence) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    for (const SplitSequences& one : {SplitSequences{"tssa", "mean", "learned"},
                                      SplitSequences{"uniform", "mean", "learned"}}) {
      std::vector<int64_t> bytes;
      for (const int64_t tokens : {1 << 10, 1 << 13, 1 << 16}) {
        const auto of = [&](int64_t depth) {
          const auto model = split_classifier(one, tokens, depth);
          return testing::split_bytes(group, *model, split_sequence_loss(*model, one, tokens));
        };
        bytes.push_back((of(2) - of(1)) / 2);  // a sample
        if (group.first()) {
          std::printf("%-20s %8lld tokens %8lld bytes a layer and sample\n", one.mixer,
                      static_cast<long long>(tokens), static_cast<long long>(bytes.back()));
        }
      }
      EXPECT_EQ(bytes, std::vector<int64_t>(bytes.size(), bytes.front())) << one.mixer;
    }
  });
}

}  // namespace
}  // namespace tost
