// Whole language models whose tokens lie on several processes.
#include <gtest/gtest.h>

#include "tost/kinds/language/task.h"
#include "tost/train/split_model_test_util.h"

namespace tost {
namespace {

using torch::Tensor;

struct SplitCase {
  const char* mixer;
  CausalMixerOptions options = {};
  bool in_double = true;    // else some of its sums are float32 always
  const char* hybrid = "";  // mixer of every second block
};

std::vector<SplitCase> split_cases() {
  return {{"tssa"},
          {"tssa", {.bias_positions = 5, .conv = 4, .scale_pi = true, .means = "tokens"}},
          {"tssa", {.conv = 3, .decay = "learned", .means = "values", .gate = true}, false},
          {"means", {.conv = 4, .decay = "learned", .gate = true}, false},
          {"means", {.decay = "fixed"}, false},
          {"uniform", {.conv = 4}, false},
          {"none", {.conv = 4, .gate = true}},
          {"delta"},
          {"delta", {.conv = 4, .decay = "learned", .gate = true}},
          {"delta", {.conv = 3, .gate = true}, true, "tssa"},
          {"delta", {.decay = "fixed", .beta_range = 2, .delta_steps = 2}},
          {"linear", {.conv = 4}}};
}

std::shared_ptr<LanguageModel> split_model(const SplitCase& of, int64_t block, int64_t depth) {
  LanguageConfig config;
  config.vocab = 11, config.block = block, config.dim = 24, config.heads = 3, config.depth = depth;
  config.layer_scale = 1, config.bias = true;
  config.mixer = of.mixer;
  config.options = of.options;
  if (*of.hybrid != '\0') config.hybrid_mixer = of.hybrid, config.hybrid_every = 2;
  torch::manual_seed(3);
  auto model = make_language_model(config);
  const torch::NoGradGuard no_grad;
  for (auto& one : model->named_parameters()) {
    one.value() += 0.1 * torch::randn_like(one.value());
    // Far from 0, where the gradient of the first token's share of its own energy cancels.
    if (one.key().ends_with("c_attn.bias")) one.value() += 2;
  }
  model->train();
  return model;
}

// The mean of a batch of two texts. The last half of the second has no targets.
testing::SharedLoss split_loss(LanguageModel& model, int64_t tokens) {
  torch::manual_seed(4);
  const Tensor all = torch::randint(11, {2, tokens + 1}, torch::kLong);
  const Tensor ids = all.narrow(1, 0, tokens), targets = all.narrow(1, 1, tokens).clone();
  targets[1].narrow(0, tokens / 2, tokens / 2).fill_(-1);
  return [&model, ids, targets](const BatchShare& share) {
    const TaskInput input = language_input(share, ids, targets, 2 * ids.size(1));
    return model.loss(input.tensors[0], input.tensors[1], input.tensors[2]) * input.weight;
  };
}

class SplitLanguage : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, SplitLanguage, ::testing::Values(2, 4));

TEST_P(SplitLanguage, ModelsAreThoseOfOneProcess) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    for (const SplitCase& one : split_cases()) {
      const auto model = split_model(one, 32, 2);
      const auto loss = split_loss(*model, 32);
      testing::expect_split_equal(group, *model, loss, one.in_double ? 1e-13 : 1e-5, one.mixer);
    }
  });
}

// Per layer, from models of one and of two.
TEST_P(SplitLanguage, SlowMessagesDoNotGrowWithTheText) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    for (const SplitCase& one : {split_cases()[0], split_cases()[3], split_cases()[8]}) {
      std::vector<int64_t> bytes;
      for (const int64_t tokens : {1 << 10, 1 << 13, 1 << 16}) {
        const auto of = [&](int64_t depth) {
          const auto model = split_model(one, tokens, depth);
          return testing::split_bytes(group, *model, split_loss(*model, tokens));
        };
        bytes.push_back((of(2) - of(1)) / 2);  // a sample
        if (group.first()) {
          std::printf("%-20s conv %lld %8lld tokens %8lld bytes a layer and sample\n", one.mixer,
                      static_cast<long long>(one.options.conv), static_cast<long long>(tokens),
                      static_cast<long long>(bytes.back()));
        }
      }
      EXPECT_EQ(bytes, std::vector<int64_t>(bytes.size(), bytes.front())) << one.mixer;
    }
  });
}

}  // namespace
}  // namespace tost
