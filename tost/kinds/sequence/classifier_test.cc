// What every classifier of sequences promises, whatever its mixer.
#include "tost/kinds/sequence/classifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "tost/base/error.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace sequence_classifier_test {

using torch::Tensor;

SequenceConfig tiny(const std::string& mixer = "tssa") {
  SequenceConfig c;
  c.name = "small";
  c.mixer = mixer;
  c.vocab = 23;
  c.max_length = 40;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.mlp_hidden = 24;
  c.classes = 3;
  return c;
}

std::shared_ptr<SequenceClassifier> random_model(const SequenceConfig& config) {
  torch::manual_seed(7);
  auto model = make_sequence_classifier(config);
  const torch::NoGradGuard no_grad;
  // Away from the initial values, so that nothing is hidden by a zero or a one.
  for (auto& p : model->parameters()) p.add_(torch::randn_like(p) * 0.1);
  model->eval();
  return model;
}

// Ids of sequences of these lengths, padded to `width` columns.
SequenceInput batch_of(const std::vector<int64_t>& lengths, int64_t width, int64_t vocab = 23) {
  auto ids = torch::zeros({int64_t(lengths.size()), width}, torch::kLong);
  for (size_t i = 0; i < lengths.size(); ++i) {
    ids[int64_t(i)].narrow(0, 0, lengths[i]).random_(1, vocab);
  }
  return {ids, torch::tensor(lengths, torch::kLong)};
}

// Sequence i of a batch, alone and without padding.
SequenceInput single_row(const SequenceInput& batch, int64_t i) {
  return {batch.ids.narrow(0, i, 1).narrow(1, 0, batch.lengths[i].item<int64_t>()), {}};
}

Tensor logits_of(SequenceClassifier& model, const SequenceInput& input) {
  return model.config().pairs ? model.forward(input, input) : model.forward(input);
}

// A different weight on every logit, so that no gradient cancels.
Tensor weighted(const Tensor& logits, int64_t first) {
  const auto n = logits.numel();
  return (logits.flatten() * torch::arange(1 + first * 3, 1 + first * 3 + n).cos()).sum();
}

double largest(const Tensor& x) {
  return x.abs().max().item<double>();
}

class EverySequenceMixer : public ::testing::TestWithParam<std::string> {};

void expect_padding_is_nothing(const SequenceConfig& config) {
  const auto model = random_model(config);
  const auto batch = batch_of({9, 1, 30, 17}, 33);
  const auto together = logits_of(*model, batch);
  ASSERT_TRUE(together.isfinite().all().item<bool>());
  weighted(together, 0).backward();
  std::vector<Tensor> grads;
  for (const auto& p : model->parameters()) grads.push_back(p.grad().clone());
  model->zero_grad();
  for (int64_t i = 0; i < batch.ids.size(0); ++i) {
    const auto single = logits_of(*model, single_row(batch, i));
    EXPECT_LT(largest(single[0] - together[i]), 1e-5 * (1 + largest(single))) << i;
    weighted(single, i).backward();
  }
  size_t at = 0;
  for (const auto& item : model->named_parameters()) {
    const auto& wanted = item.value().grad();
    EXPECT_LT(largest(grads[at] - wanted), 1e-5 * (1 + largest(wanted))) << item.key();
    EXPECT_TRUE(grads[at].isfinite().all().item<bool>()) << item.key();
    ++at;
  }
}

TEST_P(EverySequenceMixer, APaddedBatchIsItsSequencesAlone) {
  expect_padding_is_nothing(tiny(GetParam()));
  auto config = tiny(GetParam());
  config.pool = "mean";
  config.positions = "sinusoidal";
  expect_padding_is_nothing(config);
}

TEST_P(EverySequenceMixer, PaddingChangesNothing) {
  const torch::NoGradGuard no_grad;
  const auto model = random_model(tiny(GetParam()));
  const auto batch = batch_of({9, 1, 21}, 30);
  auto other = batch;
  other.ids = batch.ids.clone();
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t length = batch.lengths[i].item<int64_t>();
    other.ids[i].narrow(0, length, 30 - length).fill_(i == 0 ? 1'000'000 : 5);
  }
  EXPECT_TRUE(torch::equal(model->forward(batch), model->forward(other)));
}

TEST_P(EverySequenceMixer, OrderIsSeenThroughPositionsAlone) {
  if (GetParam() == "ssm" || GetParam() == "means") {
    GTEST_SKIP() << "reads tokens in order";
  }
  const torch::NoGradGuard no_grad;
  const auto batch = batch_of({12, 20}, 20);
  auto turned = batch;
  turned.ids = batch.ids.clone();
  turned.ids[0].narrow(0, 0, 12).copy_(batch.ids[0].narrow(0, 0, 12).flip(0));
  for (const std::string positions : {"none", "learned", "sinusoidal"}) {
    auto config = tiny(GetParam());
    config.positions = positions;
    config.pool = "mean";
    const auto model = random_model(config);
    const auto change = largest(model->encode(batch) - model->encode(turned));
    if (positions == "none") {
      EXPECT_LT(change, 1e-5);
    } else {
      EXPECT_GT(change, 1e-3) << positions;
    }
  }
}

void expect_gradients(const SequenceConfig& config) {
  const auto model = random_model(config);
  model->train();
  const auto a = batch_of({40, 3}, 40), b = batch_of({5, 8}, 8);
  const auto logits = config.pairs ? model->forward(a, b) : model->forward(a);
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 3}));
  weighted(logits, 0).backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(largest(item.value().grad()), 0) << item.key();
  }
}

TEST_P(EverySequenceMixer, GradientsReachEveryParameter) {
  auto config = tiny(GetParam());
  config.dropout = 0.1;
  for (const bool pairs : {false, true}) {
    config.pairs = pairs;
    config.pool = "mean";
    expect_gradients(config);
    // A mixer that mixes nothing leaves the tokens out of sight of the class token.
    if (GetParam() == "none") continue;
    config.pool = "class";
    expect_gradients(config);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySequenceMixer, ::testing::ValuesIn(mixer_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(SequenceClassifier, HybridsAndPairsKeepPaddingApart) {
  auto config = tiny();
  config.hybrid_every = 2;
  expect_padding_is_nothing(config);
  EXPECT_TRUE(state_dict(*random_model(config)).contains("blocks.1.attn.proj.weight"));
  EXPECT_TRUE(state_dict(*random_model(config)).contains("blocks.0.attn.temp"));
  config.pairs = true;
  expect_padding_is_nothing(config);
}

TEST(SequenceClassifier, ThePairHeadSeesBothItsProductAndItsDifference) {
  const torch::NoGradGuard no_grad;
  auto config = tiny();
  config.pairs = true;
  const auto model = random_model(config);
  const auto first = batch_of({7, 9}, 9), second = batch_of({4, 2}, 5);
  const auto a = model->encode(first), b = model->encode(second);
  const auto state = state_dict(*model);
  const auto seen = torch::cat({a, b, a * b, a - b}, 1);
  const auto hidden =
      torch::gelu(torch::linear(seen, state.at("head.fc1.weight"), state.at("head.fc1.bias")));
  const auto wanted = torch::linear(hidden, state.at("head.fc2.weight"), state.at("head.fc2.bias"));
  EXPECT_LT(largest(model->forward(first, second) - wanted), 1e-5);
}

TEST(SequenceClassifier, TracesShowValidTokensAndChangeNothing) {
  const torch::NoGradGuard no_grad;
  const auto model = random_model(tiny());
  const auto batch = batch_of({9, 4}, 12);
  std::vector<BlockTrace> trace;
  const auto seen = model->encode(batch, &trace);
  EXPECT_TRUE(torch::equal(seen, model->encode(batch)));
  ASSERT_EQ(trace.size(), 2u);
  const auto sums = trace[1].mixer.pi.sum(1);  // the class token in front
  ASSERT_EQ(sums.sizes(), torch::IntArrayRef({2, 10}));
  EXPECT_LT(largest(sums[0] - 1), 1e-5);
  EXPECT_LT(largest(sums[1].narrow(0, 0, 5) - 1), 1e-5);
  EXPECT_EQ(largest(sums[1].narrow(0, 5, 5)), 0);
}

TEST(SequenceClassifier, DropoutWorksInTrainingAlone) {
  auto config = tiny();
  config.dropout = 0.5;
  const auto model = random_model(config);
  const auto batch = batch_of({9, 12}, 12);
  EXPECT_TRUE(torch::equal(model->forward(batch), model->forward(batch)));
  model->train();
  EXPECT_FALSE(torch::equal(model->forward(batch), model->forward(batch)));
}

TEST(SequenceClassifier, BlocksDropValuesOfEitherBranch) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  Block block({.dim = 16, .mlp_hidden = 32, .dropout = 0.25},
              make_mixer("none", {.dim = 16, .heads = 1}));
  init_linears(block);
  const auto x = torch::randn({4, 50, 16});
  for (const auto& silenced : {block.gamma1, block.gamma2}) {
    block.gamma1.fill_(1), block.gamma2.fill_(1);
    silenced.zero_();
    block.eval();
    const auto mixed = block.forward(x) - x;
    block.train();
    const auto dropped = block.forward(x) - x;
    const auto is_dropped = dropped == 0;
    EXPECT_NEAR(is_dropped.to(torch::kFloat).mean().item<double>(), 0.25, 0.03);
    EXPECT_TRUE(torch::allclose(dropped, (mixed / 0.75).masked_fill(is_dropped, 0), 1e-4, 1e-5));
  }
}

TEST(SequenceClassifier, SinusoidalPositionsFollowTheirDefinition) {
  const auto waves = sinusoidal_positions(300, 7);
  ASSERT_EQ(waves.sizes(), torch::IntArrayRef({300, 7}));
  for (const int64_t n : {0, 1, 299}) {
    for (int64_t i = 0; i < 7; ++i) {
      const double angle = double(n) / std::pow(10000.0, double(i / 2 * 2) / 7);
      EXPECT_NEAR(waves[n][i].item<double>(), i % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-6);
    }
  }
}

TEST(SequenceClassifier, TheClassTokenHasThePositionInFrontOfAllOthers) {
  const torch::NoGradGuard no_grad;
  auto config = tiny();
  const auto ids = batch_of({6, 6}, 6).ids;
  for (const std::string positions : {"learned", "sinusoidal", "none"}) {
    config.positions = positions;
    SequenceEmbedding embed(config);
    embed.draw_weights();
    auto places = torch::zeros({7, 16});
    if (positions == "learned") places = embed.positions->weight.narrow(0, 0, 7);
    if (positions == "sinusoidal") places = sinusoidal_positions(7, 16);
    const auto x = embed.forward(ids);
    ASSERT_EQ(x.sizes(), torch::IntArrayRef({2, 7, 16}));
    // The class token itself starts at zero.
    EXPECT_EQ(largest(x.select(1, 0) - places[0]), 0) << positions;
    const auto embedded = embed.tokens->weight.index({ids}) + places.narrow(0, 1, 6);
    EXPECT_EQ(largest(x.narrow(1, 1, 6) - embedded), 0) << positions;
    EXPECT_EQ(embed.positions != nullptr, positions == "learned");
  }
  config.positions = "learned";
  EXPECT_EQ(SequenceEmbedding(config).positions->weight.size(0), 41);
  config.pool = "mean";
  EXPECT_EQ(SequenceEmbedding(config).positions->weight.size(0), 40);
}

// Scaled by itself alone, a token that is zero stays zero: the blocks would begin without a say.
TEST(SequenceClassifier, AFreshClassTokenSeesTheTokens) {
  const torch::NoGradGuard no_grad;
  auto config = tiny("tssa");
  config.positions = "sinusoidal";
  torch::manual_seed(2);
  const auto model = make_sequence_classifier(config);
  model->eval();
  const auto seen = model->encode(batch_of({20, 20}, 20));
  EXPECT_GT(largest(seen[0] - seen[1]), 1e-4);
}

void expect_data_error(const std::string& part, const std::function<void()>& action) {
  try {
    action();
    FAIL() << "no error; expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(SequenceClassifier, WrongInputIsNamed) {
  const auto model = random_model(tiny());
  const auto with = [&](const std::function<void(SequenceInput&)>& change) {
    return [&, change] {
      auto batch = batch_of({9, 4}, 12);
      change(batch);
      model->forward(batch);
    };
  };
  expect_data_error("Token id 23 of sequence 2", with([](auto& b) { b.ids[1][3] = 23; }));
  expect_data_error("Token id -4 of sequence 1", with([](auto& b) { b.ids[0][0] = -4; }));
  expect_data_error("Token 2 of sequence 1 of the batch has id 0",
                    with([](auto& b) { b.ids[0][1] = 0; }));
  expect_data_error("give the lengths", with([](auto& b) { b.lengths.reset(); }));
  expect_data_error("Sequence 2 of the batch has no tokens",
                    with([](auto& b) { b.lengths[1] = 0; }));
  expect_data_error("Sequence 1 of the batch has no tokens",
                    with([](auto& b) { b.lengths.zero_(); }));
  expect_data_error("said to have 13 tokens", with([](auto& b) { b.lengths[0] = 13; }));
  expect_data_error("Lengths must be int64 of shape [2]",
                    with([](auto& b) { b.lengths = b.lengths.narrow(0, 0, 1); }));
  expect_data_error("Lengths must be int64",
                    with([](auto& b) { b.lengths = b.lengths.to(torch::kInt); }));
  expect_data_error("int64 of shape [batch, tokens]", with([](auto& b) { b.ids = b.ids[0]; }));
  expect_data_error("int64 of shape [batch, tokens]",
                    with([](auto& b) { b.ids = b.ids.to(torch::kFloat); }));
  expect_data_error("41 tokens is longer than the 40 learned positions",
                    [&] { model->forward(batch_of({41}, 41)); });
  EXPECT_NO_THROW(model->forward(batch_of({40, 3}, 60)));
  EXPECT_EQ(model->forward({torch::zeros({0, 5}, torch::kLong), {}}).sizes(),
            torch::IntArrayRef({0, 3}));
  auto longer = tiny();
  longer.positions = "none";
  EXPECT_NO_THROW(random_model(longer)->forward(batch_of({70}, 70)));
}

TEST(SequenceClassifier, PairsAndSinglesAreDistinguished) {
  const auto batch = batch_of({3, 4}, 4);
  expect_data_error("was given pairs", [&] { random_model(tiny())->forward(batch, batch); });
  auto config = tiny();
  config.pairs = true;
  const auto model = random_model(config);
  expect_data_error("was given single ones", [&] { model->forward(batch); });
  expect_data_error("2 first and 1 second", [&] { model->forward(batch, single_row(batch, 0)); });
}

}  // namespace sequence_classifier_test
}  // namespace tost
