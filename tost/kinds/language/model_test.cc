#include "tost/kinds/language/model.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/kinds/language/engine.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/arrays.h"
#include "tost/ops/plain.h"

namespace tost {
namespace {

using torch::Tensor;

LanguageConfig tiny(const std::string& mixer) {
  LanguageConfig c;
  c.mixer = mixer;
  c.vocab = 40;
  c.block = 300;
  c.dim = 24;
  c.depth = 2;
  c.heads = 3;
  c.layer_scale = 0.5;
  return c;
}

// Every mixer as it is, and with all the additions it has.
LanguageConfig variant(const std::string& name) {
  const auto at = name.find('+');
  auto c = tiny(name.substr(0, at));
  if (at == std::string::npos) return c;
  const auto with = name.substr(at + 1);
  auto& o = c.options;
  c.positions = "none";
  if (with == "conv") o.conv = 4;
  if (with == "gate") o.conv = 3, o.gate = true, o.scale_pi = true;
  if (with == "bias") o.bias_positions = 7;
  if (with == "window") o.conv = 2, o.window = 9;
  if (with == "window1") o.window = 1;
  if (with == "window2") o.window = 2;
  if (with == "decay") o.decay = "learned";
  if (with == "token-means") o.decay = "fixed", o.means = "tokens", o.bias_positions = 5;
  if (with == "values") o.decay = "learned", o.means = "values", o.conv = 4, o.scale_pi = true;
  if (with == "plain-values") o.means = "values", o.gate = true;
  if (with == "full") o.conv = 4, o.gate = true;
  if (with == "full" && c.mixer != "softmax" && c.mixer != "linear") o.decay = "learned";
  if (with == "fixed") o.conv = 2, o.decay = "fixed";
  if (with == "range") o.conv = 2, o.beta_range = 2;
  if (with == "steps") o.conv = 3, o.decay = "learned", o.beta_range = o.delta_steps = 2;
  if (with == "steps-hybrid") c.hybrid_every = 2, c.hybrid_mixer = "delta", o.delta_steps = 3;
  if (with == "hybrid") c.hybrid_every = 2, o.window = 9, o.conv = 4, o.gate = true;
  if (with == "hybrid1") c.hybrid_every = 2, o.window = 1;
  return c;
}

std::shared_ptr<LanguageModel> random_model(const LanguageConfig& config) {
  torch::manual_seed(7);
  auto model = make_language_model(config);
  torch::NoGradGuard no_grad;
  // Away from the initial values, so that nothing is hidden by a zero or a one.
  for (auto& p : model->parameters()) p.add_(torch::randn_like(p) * 0.2);
  model->eval();
  return model;
}

std::string test_name(const std::string& variant) {
  std::string name = variant;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class EveryCausalModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { model_ = random_model(variant(GetParam())); }
  Tensor ids(int64_t batch, int64_t tokens) { return torch::randint(0, 40, {batch, tokens}); }

  std::shared_ptr<LanguageModel> model_;
};

TEST_P(EveryCausalModel, FutureTokensChangeNothingBitForBit) {
  const torch::NoGradGuard no_grad;
  const auto a = ids(2, 200);
  auto b = a.clone();
  b.slice(1, 131).copy_(ids(2, 69));
  const auto x = model_->forward(a), y = model_->forward(b);
  EXPECT_TRUE(torch::equal(x.slice(1, 0, 131), y.slice(1, 0, 131)));
  EXPECT_FALSE(torch::equal(x, y));
}

TEST_P(EveryCausalModel, WholeChunkedAndSingleStepsAgree) {
  const torch::NoGradGuard no_grad;
  const auto text = ids(2, 150);
  const auto whole = model_->forward(text);
  const double scale = whole.abs().max().item<double>();
  for (const std::vector<int64_t>& cut :
       {std::vector<int64_t>{64, 64, 22}, {1, 70, 79}, std::vector<int64_t>(150, 1)}) {
    LanguageState state;
    int64_t t = 0;
    for (const int64_t count : cut) {
      const auto part = model_->logits(model_->hidden(text.narrow(1, t, count), &state));
      const double error = (part - whole.narrow(1, t, count)).abs().max().item<double>();
      EXPECT_LE(error, 2e-5 * scale) << "tokens " << t << " to " << t + count;
      t += count;
    }
    EXPECT_EQ(state.position, 150);
  }
}

TEST_P(EveryCausalModel, EveryParameterGetsAGradient) {
  model_->train();
  model_->loss(ids(2, 80), ids(2, 80)).backward();
  for (const auto& item : model_->named_parameters()) {
    const auto grad = item.value().grad();
    ASSERT_TRUE(grad.defined()) << item.key();
    EXPECT_TRUE(grad.isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(grad.abs().max().item<double>(), 0) << item.key();
  }
}

TEST_P(EveryCausalModel, BlocksShowTheirInputProjectionAndGate) {
  const torch::NoGradGuard no_grad;
  LanguageTrace trace;
  const auto text = ids(2, 30);
  model_->hidden(text, nullptr, &trace);
  size_t i = 0;
  for (const auto& module : model_->modules()) {
    const auto* block = module->as<Block>();
    if (block == nullptr) continue;
    const auto& seen = trace.blocks[i++];
    ASSERT_TRUE(torch::equal(block->attn->forward(seen.mixer_input, {}), seen.mixer_output));
    const auto u = block->attn->subspaces(), w = block->attn->project(seen.mixer_input);
    ASSERT_EQ(u.defined(), seen.mixer.pi.defined());
    ASSERT_EQ(w.defined(), seen.mixer.pi.defined());
    const bool gated = block->attn->named_parameters().contains("gate.weight");
    EXPECT_GE(seen.mixer.gate.defined(), gated);
    if (seen.mixer.gate.defined()) {
      EXPECT_EQ(seen.mixer.gate.sizes(), seen.mixer_output.sizes());
      EXPECT_GE(seen.mixer.gate.min().item<float>(), -0.2785);  // the least value of silu
    }
    if (!u.defined()) continue;
    EXPECT_TRUE(torch::allclose(w, seen.mixer.w, 1e-5, 1e-6));
    ASSERT_EQ(u.sizes(), torch::IntArrayRef({3, 24, 8}));
    if (block->attn->named_parameters().contains("conv.weight")) continue;
    const auto heads = torch::matmul(seen.mixer_input.unsqueeze(1), u);  // [B, H, T, P]
    EXPECT_TRUE(torch::allclose(heads.transpose(1, 2).flatten(2), w, 1e-4, 1e-5));
  }
  EXPECT_EQ(i, trace.blocks.size());
}

TEST_P(EveryCausalModel, NoGradientFlowsThroughTheState) {
  LanguageState state;
  model_->hidden(ids(1, 70), &state).sum().backward();
  for (const auto& block : state.blocks) {
    for (const auto& [name, array] : block) {
      EXPECT_FALSE(tensor_of(array).requires_grad()) << name;
    }
  }
  model_->hidden(ids(1, 70), &state).sum().backward();
}

TEST_P(EveryCausalModel, Bfloat16AutocastStaysNearFloat) {
  const torch::NoGradGuard no_grad;
  const auto text = ids(2, 90);
  const auto wide = model_->forward(text);
  const testing::Bfloat16Autocast autocast;
  const auto narrow = model_->forward(text).to(torch::kFloat);
  EXPECT_LE((narrow - wide).abs().max().item<double>(), 0.08 * wide.abs().max().item<double>());
}

TEST_P(EveryCausalModel, ConfigurationSurvivesJson) {
  const auto json = to_json(model_->config());
  EXPECT_EQ(to_json(language_config_from_json(json)), json);
}

INSTANTIATE_TEST_SUITE_P(
    Mixers, EveryCausalModel,
    ::testing::Values("tssa", "tssa+conv", "tssa+gate", "tssa+bias", "softmax", "softmax+conv",
                      "softmax+window", "softmax+window1", "softmax+window2", "softmax+full",
                      "linear", "linear+conv", "linear+full", "delta", "delta+conv", "delta+full",
                      "delta+fixed", "delta+range", "delta+steps", "means+steps-hybrid", "ssm",
                      "ssm+conv", "uniform", "uniform+gate", "none", "none+conv", "tssa+hybrid",
                      "tssa+hybrid1", "tssa+decay", "tssa+token-means", "tssa+values",
                      "tssa+plain-values", "means", "means+full"),
    [](const auto& info) { return test_name(info.param); });

struct SizeRow {
  const char* name;
  int64_t parameters;
};
class OfficialLanguageSize : public ::testing::TestWithParam<SizeRow> {};

TEST_P(OfficialLanguageSize, ParameterCount) {
  const auto model = make_language_model(language_preset(GetParam().name), WeightInit::kNone);
  int64_t count = 0;
  for (const auto& p : model->parameters()) count += p.numel();
  EXPECT_EQ(count, GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Table, OfficialLanguageSize,
                         ::testing::Values(SizeRow{"tost_gpt_base", 110'384'016},
                                           SizeRow{"tost_gpt_medium", 304'711'040},
                                           SizeRow{"tost_gpt_large", 656'447'440},
                                           SizeRow{"gpt_base", 124'392'192},
                                           SizeRow{"gpt_medium", 354'649'088},
                                           SizeRow{"gpt_large", 773'674'240}),
                         [](const auto& info) { return std::string(info.param.name); });

// Causal TSSA by its definition, on the weights of another mixer.
class PlainTssa : public TokenMixer {
 public:
  explicit PlainTssa(const CausalTssaMixer& source) : source_(source) {}
  Tensor forward(const Tensor& x, const MixerCall&) override {
    const Tensor w = torch::linear(x, source_.c_attn->weight, source_.c_attn->bias);
    const auto [y, pi, state] = tssa_causal_plain(w, source_.temp, source_.denom_bias);
    return torch::linear(y, source_.c_proj->weight, source_.c_proj->bias);
  }

 private:
  const CausalTssaMixer& source_;
};

TEST(LanguageModel, HasTheLossOfThePlainForm) {
  const torch::NoGradGuard no_grad;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto model = random_model(tiny("tssa"));
    const Tensor ids = torch::randint(0, 40, {1, 64}, torch::kLong);
    const PrecisionScope scope(precision);
    const double found = model->loss(ids, ids).item<double>();
    std::vector<std::shared_ptr<TokenMixer>> mixers;
    for (const auto& block : model->blocks()) {
      mixers.push_back(block->attn);
      block->attn = std::make_shared<PlainTssa>(*block->attn->as<CausalTssaMixer>());
    }
    const Tensor logits = model->forward(ids).flatten(0, 1);
    const double wanted = torch::cross_entropy_loss(logits, ids.flatten()).item<double>();
    EXPECT_NEAR(found, wanted, (precision == Precision::kBf16 ? 5e-3 : 1e-4) * wanted);
  }
}

TEST(LanguageModel, StateOfTokenStatisticsDoesNotGrow) {
  auto model = random_model(variant("tssa+gate"));
  LanguageState state;
  model->extend(torch::randint(0, 40, {1, 10}), state);
  const int64_t bytes = state_bytes(state);
  model->extend(torch::randint(0, 40, {1, 5000}), state);
  EXPECT_EQ(state_bytes(state), bytes);
  // 2 d + K doubles of statistics and two tokens of convolution a layer.
  EXPECT_EQ(bytes, 2 * ((2 * 24 + 3) * 8 + 2 * 24 * 4));
}

TEST(LanguageModel, StateOfSoftmaxGrowsUpToItsWindow) {
  const auto bytes_after = [](const char* name, int64_t tokens) {
    auto model = random_model(variant(name));
    LanguageState state;
    model->extend(torch::randint(0, 40, {1, tokens}), state);
    return state_bytes(state);
  };
  EXPECT_EQ(bytes_after("softmax", 200), 2 * 200 * 24 * 4 * 2);
  EXPECT_EQ(bytes_after("softmax+window", 50), bytes_after("softmax+window", 299));
  EXPECT_EQ(bytes_after("softmax+window2", 1), bytes_after("softmax+window2", 299));
  EXPECT_EQ(bytes_after("softmax+window1", 299), 0);  // only the current token is seen
}

// A state may be copied and both copies continue: neither writes into the other's memory.
TEST(LanguageModel, CopiesOfAStateAreIndependent) {
  for (const char* name : {"softmax", "softmax+window", "softmax+window1", "tssa+gate",
                           "means+full", "linear", "delta+full", "delta+steps", "ssm"}) {
    auto model = random_model(variant(name));
    const auto prompt = torch::randint(0, 40, {1, 30});
    const auto run = [&](LanguageState state, int64_t id) {
      Tensor last;
      for (int i = 0; i < 6; ++i) last = model->extend(torch::full({1, 1}, id), state);
      return last;
    };
    LanguageState a, fresh;
    model->extend(prompt, a);
    for (int i = 0; i < 3; ++i) model->extend(torch::full({1, 1}, 7), a);  // into buffers with room
    LanguageState b = a;
    model->extend(torch::full({1, 1}, 1), a);
    model->extend(torch::full({1, 1}, 2), b);
    model->extend(prompt, fresh);
    for (int i = 0; i < 3; ++i) model->extend(torch::full({1, 1}, 7), fresh);
    model->extend(torch::full({1, 1}, 1), fresh);
    EXPECT_TRUE(torch::equal(run(a, 3), run(fresh, 3))) << name;
  }
}

TEST(LanguageModel, WindowOfManyTokensEqualsTheMask) {
  auto c = tiny("softmax");
  c.positions = "none";
  c.options.window = 20;
  auto model = random_model(c);
  const torch::NoGradGuard no_grad;
  const auto ids = torch::randint(0, 40, {2, 1300});  // three blocks of queries
  const auto whole = model->forward(ids);
  // A token sees the 19 before it in each of two layers, so the last 60 decide the last one.
  const auto tail = model->forward(ids.narrow(1, 1240, 60));
  EXPECT_TRUE(torch::allclose(whole.select(1, 1299), tail.select(1, 59), 1e-4, 1e-5));
  EXPECT_FALSE(torch::allclose(whole.select(1, 1299),
                               model->forward(ids.narrow(1, 1290, 10)).select(1, 9), 1e-4, 1e-5));
}

TEST(LanguageModel, AttentionWeightsHaveADropoutOfTheirOwn) {
  const auto drops = [](double dropout, double of_weights) {
    auto c = tiny("softmax");
    c.dropout = dropout;
    c.options.attention_dropout = of_weights;
    torch::manual_seed(3);
    const auto mixer = make_causal_mixer("softmax", mixer_config(c));
    const torch::NoGradGuard no_grad;
    for (auto& p : mixer->parameters()) p.normal_();
    const auto x = torch::randn({2, 9, c.dim});
    const auto trained = mixer->forward(x, {});
    mixer->eval();
    return !torch::equal(trained, mixer->forward(x, {}));
  };
  EXPECT_TRUE(drops(0.5, -1));
  EXPECT_TRUE(drops(0, 0.5));
  EXPECT_FALSE(drops(0.5, 0));
  EXPECT_FALSE(drops(0, -1));
}

// Nothing but the last vector reaches the decoder, with each position.
TEST(LanguageModel, AnAutoEncoderRestoresAllTokensFromTheLastVector) {
  const torch::NoGradGuard no_grad;
  const auto ids = torch::tensor({{3, 1, 4, 1, 5}, {2, 7, 1, 8, 5}}, torch::kLong);
  for (const char* mixer : {"none", "softmax"}) {
    auto c = tiny(mixer);
    c.positions = "none";
    c.auto_encoder = true;
    const auto model = random_model(c);
    model->eval();
    const auto logits = model->forward(ids);
    ASSERT_EQ(logits.sizes(), torch::IntArrayRef({2, 5, c.vocab}));
    EXPECT_FALSE(torch::allclose(logits[0][0], logits[0][1]));
    // Two threads cut the rows of a product differently, which rounds to 2.3e-6 here.
    const bool same = torch::allclose(logits[0], logits[1], 1e-4, 1e-5);
    EXPECT_EQ(same, c.mixer == "none")
        << "the last tokens are equal, the others differ: " << (logits[0] - logits[1]).abs().max();
    EXPECT_EQ(context_bytes(*model, ids), 4 * c.dim);
    EXPECT_EQ(model->forward(ids.narrow(1, 0, 0)).size(1), 0);
    LanguageState state;
    EXPECT_THROW(model->extend(ids, state), Error);
    EXPECT_EQ(state.position, 0);
    EXPECT_THROW(LanguageEngine{*model}, Error);
  }
}

TEST(LanguageModel, RefusesTokensPastLearnedPositions) {
  auto model = random_model(tiny("tssa"));
  LanguageState state;
  model->extend(torch::zeros({1, 300}, torch::kLong), state);
  try {
    model->extend(torch::zeros({1, 1}, torch::kLong), state);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("300 tokens"), std::string::npos) << error.what();
  }
  EXPECT_EQ(state.position, 300);
}

TEST(LanguageModel, RefusesIdsOutsideTheVocabulary) {
  auto model = random_model(tiny("tssa"));
  EXPECT_THROW(model->forward(torch::full({1, 3}, 40)), Error);
  EXPECT_THROW(model->forward(torch::full({1, 3}, -1)), Error);
  EXPECT_THROW(model->forward(torch::zeros({3}, torch::kLong)), Error);
}

TEST(LanguageModel, TargetsOfMinusOneDoNotCount) {
  auto model = random_model(tiny("tssa"));
  const auto ids = torch::randint(0, 40, {2, 20});
  auto targets = torch::randint(0, 40, {2, 20});
  targets.slice(1, 0, 15).fill_(-1);
  const auto wanted = torch::cross_entropy_loss(model->forward(ids).slice(1, 15).reshape({-1, 40}),
                                                targets.slice(1, 15).reshape({-1}));
  EXPECT_NEAR(model->loss(ids, targets).item<double>(), wanted.item<double>(), 1e-6);
}

TEST(LanguageConfig, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    auto c = tiny("tssa");
    change(c);
    EXPECT_THROW(validate(c), Error);
  };
  validate(tiny("tssa"));
  refused([](auto& c) { c.block = 0; });
  refused([](auto& c) { c.vocab = 0; });
  refused([](auto& c) { c.heads = 5; });
  refused([](auto& c) { c.mixer = "tsa"; });
  refused([](auto& c) { c.positions = "rotary"; });
  refused([](auto& c) { c.dropout = 1; });
  refused([](auto& c) { c.options.window = 5; });
  refused([](auto& c) { c.options.attention_dropout = 0; });
  refused([](auto& c) { c.mixer = "softmax", c.options.attention_dropout = 1; });
  refused([](auto& c) { c.mixer = "softmax", c.options.attention_dropout = -0.5; });
  refused([](auto& c) { c.mixer = "ssm", c.options.gate = true; });
  refused([](auto& c) { c.options.beta_range = 2; });
  refused([](auto& c) { c.options.delta_steps = 2; });
  refused([](auto& c) { c.hybrid_every = 2, c.options.beta_range = 2; });
  for (const int64_t wrong : {0, 9}) {
    refused([=](auto& c) { c.mixer = "delta", c.options.beta_range = wrong; });
    refused([=](auto& c) { c.mixer = "delta", c.options.delta_steps = wrong; });
  }
  refused([](auto& c) { c.mixer = "softmax", c.options.bias_positions = 3; });
  refused([](auto& c) { c.mixer = "softmax", c.hybrid_every = 2, c.options.gate = true; });
  refused([](auto& c) { c.mixer = "none", c.hybrid_every = 2, c.options.decay = "learned"; });
  refused([](auto& c) { c.dim = c.heads = 16384, c.options.bias_positions = 1 << 24; });
  refused([](auto& c) { c.options.decay = "fast"; });
  refused([](auto& c) { c.dim = 16384, c.heads = 1, c.depth = 1024; });
}

// bfloat16 autocast leaves the sums alone.
TEST(RunningSums, StayExactUnderAutocast) {
  const auto x = torch::rand({1, 500, 2, 3}) + 0.5;
  const auto wanted = running_sums(x, {});
  const testing::Bfloat16Autocast autocast;
  EXPECT_TRUE(torch::equal(running_sums(x, {}), wanted));
}

// Against the recurrence itself, in float64.
TEST(RunningSums, MatchTheRecurrence) {
  for (const int64_t tokens : {1, 2, 63, 64, 65, 200, 64 * 64 + 65}) {
    for (const bool decayed : {false, true}) {
      for (const bool carried : {false, true}) {
        const auto x = torch::randn({2, tokens, 3, 5}, torch::kDouble);
        const auto log_decay =
            decayed ? torch::tensor({-0.01, -0.5, 0.0}, torch::kDouble) : Tensor();
        Tensor carry = carried ? torch::randn({2, 3, 5}, torch::kDouble) : Tensor();
        auto s = carried ? carry.clone() : torch::zeros({2, 3, 5}, torch::kDouble);
        std::vector<Tensor> wanted;
        for (int64_t t = 0; t < tokens; ++t) {
          s = (decayed ? log_decay.exp().view({1, 3, 1}) * s : s) + x.select(1, t);
          wanted.push_back(s);
        }
        const auto found = running_sums(x, log_decay, &carry);
        EXPECT_TRUE(torch::allclose(found, torch::stack(wanted, 1), 1e-12, 1e-12)) << tokens;
        EXPECT_TRUE(torch::allclose(carry, s, 1e-12, 1e-12)) << tokens;
        if (!carried) {
          EXPECT_TRUE(torch::allclose(running_sums(x, log_decay), found, 1e-12, 1e-12));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tost
