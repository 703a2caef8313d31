#include "tost/kinds/sequence/engine.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace sequence_engine_test {

using torch::Tensor;

SequenceConfig small_config() {
  SequenceConfig c;
  c.vocab = 40;
  c.max_length = 900;
  c.dim = 32;
  c.depth = 2;
  c.heads = 4;
  c.mlp_hidden = 80;
  c.classes = 5;
  c.dropout = 0.1;
  return c;
}

// In evaluation mode, with norms, scales and biases that are not those of a new model.
std::shared_ptr<SequenceClassifier> used_model(const SequenceConfig& config) {
  torch::manual_seed(7);
  auto model = make_sequence_classifier(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    const std::string& name = parameter.key();
    Tensor& value = parameter.value();
    const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (holds("gamma")) value.normal_(0.5, 0.1);
    if (holds("bias")) value.normal_(0, 0.1);
    if (holds("temp")) value.uniform_(0.5, 2);
    if (holds("norm") && holds("weight")) value.uniform_(0.5, 1.5);
    if (holds("cls_token") || holds("positions")) value.normal_();
    if (holds("attn") && holds("weight") && value.dim() == 2) value.normal_(0, 0.2);
    if (holds("mlp") && holds("weight")) value.normal_(0, 0.15);
  }
  model->eval();
  return model;
}

// Random tokens; after each sequence stands what no model may read.
SequenceInput batch_of(const SequenceConfig& config, const std::vector<int64_t>& lengths,
                       int64_t padding = 3, int seed = 8) {
  torch::manual_seed(seed);
  int64_t longest = 0;
  for (const int64_t length : lengths) longest = std::max(longest, length);
  const auto count = static_cast<int64_t>(lengths.size());
  SequenceInput input{torch::randint(1, config.vocab, {count, longest + padding}, torch::kLong),
                      torch::tensor(lengths, torch::kLong)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own = lengths[static_cast<size_t>(i)];
    input.ids[i].narrow(0, own, longest + padding - own).fill_(-7);
  }
  return input;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

struct Bound {
  Precision precision;
  double error;
};
constexpr Bound kBounds[] = {
    {Precision::kFp32, 1e-5}, {Precision::kBf16, 3e-2}, {Precision::kInt8, 6e-2}};

void expect_agreement(const SequenceConfig& config, const SequenceInput& input) {
  const torch::InferenceMode no_grad;
  const auto model = used_model(config);
  ASSERT_TRUE(SequenceEngine::supports(*model));
  const Tensor expected = model->forward(input);
  for (const auto& [precision, error] : kBounds) {
    SequenceEngine engine(*model, precision);
    const Tensor found = engine.forward(input);
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LE(relative_error(found, expected), error)
        << config.mixer << " " << config.pool << " " << config.positions << " " << precision;
    EXPECT_TRUE(torch::equal(found, engine.forward(input))) << precision;
  }
}

class SequenceEngineTest : public ::testing::Test {
 protected:
  void TearDown() override { at::set_num_threads(before_); }
  const int before_ = at::get_num_threads();
};

TEST_F(SequenceEngineTest, AgreesWithTheModuleForEveryMixer) {
  for (const auto& mixer : mixer_names()) {
    for (const char* pool : {"class", "mean"}) {
      SequenceConfig config = small_config();
      config.mixer = mixer;
      config.pool = pool;
      expect_agreement(config, batch_of(config, {19, 1, 33}));
    }
  }
}

TEST_F(SequenceEngineTest, AgreesForEveryForm) {
  const auto check = [](auto change, const std::vector<int64_t>& lengths = {5, 17, 2}) {
    for (const char* pool : {"class", "mean"}) {
      SequenceConfig config = small_config();
      config.pool = pool;
      change(config);
      expect_agreement(config, batch_of(config, lengths));
    }
  };
  check([](SequenceConfig& c) { c.positions = "sinusoidal"; });
  check([](SequenceConfig& c) { c.positions = "none"; });
  check([](SequenceConfig& c) { c.qkv_bias = false; });
  check([](SequenceConfig& c) { c.depth = 1; });
  check([](SequenceConfig& c) { c.depth = 4, c.hybrid_every = 2; });
  check([](SequenceConfig& c) { c.depth = 3, c.hybrid_every = 2, c.hybrid_mixer = "none"; });
  check([](SequenceConfig& c) { c.dim = 36, c.mlp_hidden = 0, c.classes = 2; });
  check([](SequenceConfig& c) { c.dim = 33, c.heads = 3, c.mlp_hidden = 61; });
  check([](SequenceConfig& c) { c.heads = 1; });
}

TEST_F(SequenceEngineTest, AgreesForAllLengths) {
  const std::vector<std::vector<int64_t>> batches{
      {1}, {1, 1, 1}, {207, 208, 209}, {900}, {15, 16, 17, 800, 3, 799}, {64, 64, 64, 64, 64}};
  for (const auto& lengths : batches) {
    for (const char* pool : {"class", "mean"}) {
      SequenceConfig config = small_config();
      config.pool = pool;
      expect_agreement(config, batch_of(config, lengths));
    }
  }
}

TEST_F(SequenceEngineTest, WithoutLengthsAllTokensCount) {
  const SequenceConfig config = small_config();
  SequenceInput input = batch_of(config, {23, 23}, /*padding=*/0);
  input.lengths.reset();
  expect_agreement(config, input);
  // Ids of any strides.
  input.ids = input.ids.t().contiguous().t();
  expect_agreement(config, input);
}

TEST_F(SequenceEngineTest, AgreesForPairs) {
  const torch::InferenceMode no_grad;
  for (const char* pool : {"class", "mean"}) {
    SequenceConfig config = small_config();
    config.pairs = true;
    config.pool = pool;
    const auto model = used_model(config);
    const auto first = batch_of(config, {12, 300, 4}), second = batch_of(config, {30, 2, 7}, 3, 9);
    const Tensor expected = model->forward(first, second);
    for (const auto& [precision, error] : kBounds) {
      SequenceEngine engine(*model, precision);
      EXPECT_LE(relative_error(engine.forward(first, second), expected), error)
          << pool << " " << precision;
      EXPECT_THROW(engine.forward(first), Error);
      EXPECT_THROW(engine.forward(first, batch_of(config, {30, 2})), Error);
    }
  }
}

TEST_F(SequenceEngineTest, ThreadsChangeNoBit) {
  const torch::InferenceMode no_grad;
  const std::vector<std::vector<int64_t>> batches{
      {800}, {300, 301}, {5, 700, 33, 210, 8, 9, 400, 120, 64, 1}};
  for (const char* pool : {"class", "mean"}) {
    SequenceConfig config = small_config();
    config.pool = pool;
    const auto model = used_model(config);
    for (const auto& [precision, error] : kBounds) {
      for (const auto& lengths : batches) {
        const auto input = batch_of(config, lengths);
        at::set_num_threads(1);
        SequenceEngine engine(*model, precision);
        const Tensor one = engine.forward(input);
        for (const int threads : {2, 3}) {
          at::set_num_threads(threads);
          EXPECT_TRUE(torch::equal(engine.forward(input), one))
              << pool << " " << precision << ", threads " << threads;
        }
      }
    }
  }
}

TEST_F(SequenceEngineTest, PaddingChangesNoBit) {
  const torch::InferenceMode no_grad;
  const SequenceConfig config = small_config();
  const auto model = used_model(config);
  const auto padded = batch_of(config, {70, 200, 31}, /*padding=*/50);
  const SequenceInput cut{padded.ids.narrow(1, 0, 200), padded.lengths};
  for (const auto& [precision, error] : kBounds) {
    SequenceEngine engine(*model, precision);
    EXPECT_TRUE(torch::equal(engine.forward(padded), engine.forward(cut))) << precision;
  }
}

TEST_F(SequenceEngineTest, ASequenceDependsOnItselfAlone) {
  const torch::InferenceMode no_grad;
  for (const char* mixer : {"tssa", "softmax"}) {
    SequenceConfig config = small_config();
    config.mixer = mixer;
    const auto model = used_model(config);
    const std::vector<int64_t> lengths{70, 3, 200, 31, 90, 90, 12};
    const auto input = batch_of(config, lengths);
    for (const auto& [precision, error] : kBounds) {
      SequenceEngine engine(*model, precision);
      const Tensor together = engine.forward(input);
      for (int64_t i = 0; i < together.size(0); ++i) {
        const SequenceInput own{input.ids.narrow(0, i, 1), input.lengths.narrow(0, i, 1)};
        EXPECT_LE(relative_error(engine.forward(own), together.narrow(0, i, 1)), error)
            << mixer << " " << precision << ", sequence " << i;
      }
    }
  }
}

TEST_F(SequenceEngineTest, ManySequencesGoInGroups) {
  const torch::InferenceMode no_grad;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 500; ++i) lengths.push_back(1 + i * 7 % 23);
  for (const char* pool : {"class", "mean"}) {
    SequenceConfig config = small_config();
    config.pool = pool;
    const auto model = used_model(config);
    const auto input = batch_of(config, lengths);
    const Tensor expected = model->forward(input);
    for (const auto& [precision, error] : kBounds) {
      SequenceEngine engine(*model, precision);
      EXPECT_LE(relative_error(engine.forward(input), expected), error) << pool << precision;
    }
  }
}

TEST_F(SequenceEngineTest, SmallCallsAfterLargeOnesAndBack) {
  const torch::InferenceMode no_grad;
  SequenceConfig config = small_config();
  config.positions = "sinusoidal";
  const auto model = used_model(config);
  SequenceEngine engine(*model, Precision::kFp32);
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{3}, {700, 20}, {4, 5}, {90, 90, 90}, {850}, {1}}) {
    const auto input = batch_of(config, lengths);
    EXPECT_LE(relative_error(engine.forward(input), model->forward(input)), 1e-5);
  }
}

TEST_F(SequenceEngineTest, EmptyBatchesGiveNoLogits) {
  SequenceConfig config = small_config();
  SequenceEngine engine(*used_model(config), Precision::kBf16);
  const Tensor none = engine.forward({torch::empty({0, 9}, torch::kLong), {}});
  EXPECT_EQ(none.sizes(), (std::vector<int64_t>{0, 5}));
  config.pairs = true;
  SequenceEngine pairs(*used_model(config), Precision::kInt8);
  const SequenceInput empty{torch::empty({0, 0}, torch::kLong), torch::empty({0}, torch::kLong)};
  EXPECT_EQ(pairs.forward(empty, empty).sizes(), (std::vector<int64_t>{0, 5}));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(SequenceEngineTest, SaysWhatTheModelSaysOfWrongInputs) {
  const SequenceConfig config = small_config();
  const auto model = used_model(config);
  SequenceEngine engine(*model, Precision::kFp32);
  const auto ids = [](std::vector<int64_t> values) {
    return torch::tensor(values, torch::kLong).unsqueeze(0);
  };
  const auto length = [](int64_t value) { return torch::tensor({value}, torch::kLong); };
  const std::vector<SequenceInput> wrong{{ids({1, 40}), {}},
                                         {ids({1, 0}), {}},
                                         {ids({1, -1}), {}},
                                         {ids({1, 2}), length(0)},
                                         {ids({1, 2}), length(3)},
                                         {ids({1, 2}), torch::tensor({1, 2}, torch::kLong)},
                                         {ids({1, 2}), torch::tensor({2}, torch::kInt)},
                                         {ids({1, 2}).to(torch::kInt), {}},
                                         {ids({1, 2})[0], {}},
                                         {torch::ones({1, 901}, torch::kLong), {}},
                                         {torch::empty({2, 0}, torch::kLong), {}},
                                         {{}, {}}};
  for (const auto& input : wrong) {
    const std::string said = error_of([&] { model->forward(input); });
    EXPECT_FALSE(said.empty());
    EXPECT_EQ(error_of([&] { engine.forward(input); }), said);
  }
  const SequenceInput right{ids({1, 2}), {}};
  EXPECT_EQ(error_of([&] { engine.forward(right, right); }),
            error_of([&] { model->forward(right, right); }));
  EXPECT_EQ(engine.forward(right).size(0), 1);  // no call before has left a trace
}

TEST_F(SequenceEngineTest, TakesThreePrecisionsAndFloat32Models) {
  const auto model = used_model(small_config());
  EXPECT_THROW(SequenceEngine(*model, Precision::kInt4), Error);
  model->to(torch::kBFloat16);
  EXPECT_FALSE(SequenceEngine::supports(*model));
  EXPECT_THROW(SequenceEngine(*model, Precision::kFp32), Error);
}

TEST_F(SequenceEngineTest, NamesTheTensorThatCannotBeRounded) {
  const torch::NoGradGuard no_grad;
  for (const char* name : {"blocks.1.mlp.fc1.weight", "blocks.0.mlp.fc2.weight",
                           "blocks.1.attn.qkv.weight", "blocks.0.attn.to_out.0.weight"}) {
    const auto model = used_model(small_config());
    model->named_parameters()[name][0][0] = NAN;
    const std::string said = error_of([&] { SequenceEngine(*model, Precision::kInt8); });
    EXPECT_NE(said.find(name), std::string::npos) << said;
    EXPECT_TRUE(SequenceEngine(*model, Precision::kBf16)
                    .forward(batch_of(small_config(), {4}))
                    .isnan()
                    .all()
                    .item<bool>());
  }
}

TEST_F(SequenceEngineTest, LaterChangesOfTheModelDoNotReachIt) {
  const torch::InferenceMode no_grad;
  const SequenceConfig config = small_config();
  const auto model = used_model(config);
  const auto input = batch_of(config, {20, 9});
  SequenceEngine engine(*model, Precision::kFp32);
  const Tensor before = engine.forward(input);
  for (auto& parameter : model->parameters()) parameter.zero_();
  EXPECT_TRUE(torch::equal(before, engine.forward(input)));
}

}  // namespace sequence_engine_test
}  // namespace tost
