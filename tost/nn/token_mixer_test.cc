// What every mixer promises, whatever its name.
#include "tost/nn/token_mixer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/testing/errors.h"
#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {
namespace token_mixer_test {

constexpr int64_t kBatch = 2, kTokens = 11, kDim = 24, kHeads = 4;

class EveryMixer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    mixer_ = make_mixer(GetParam(), {.dim = kDim, .heads = kHeads, .qkv_bias = true});
    const torch::NoGradGuard no_grad;
    // Larger than at the start of training, so that a wrong term shows.
    for (auto& parameter : mixer_->parameters()) parameter.normal_(0, 0.5);
    x_ = torch::randn({kBatch, kTokens, kDim});
  }

  std::shared_ptr<TokenMixer> mixer_;
  torch::Tensor x_;
};

// As a share of the largest value: CPUs round otherwise, and what a mixer inverts makes more of it.
void expect_near(const torch::Tensor& found, const torch::Tensor& wanted) {
  EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-4 * wanted.abs().max().item<double>());
}

TEST_P(EveryMixer, PermutingTokensPermutesTheOutput) {
  if (GetParam() == "ssm" || GetParam() == "means") {
    GTEST_SKIP() << "reads tokens in order";
  }
  const auto order = torch::randperm(kTokens);
  const auto straight = mixer_->forward(x_, {}).index_select(1, order);
  const auto permuted = mixer_->forward(x_.index_select(1, order), {});
  expect_near(straight, permuted);
}

TEST_P(EveryMixer, SequencesOfABatchDoNotMeet) {
  const auto together = mixer_->forward(x_, {});
  const auto separate = mixer_->forward(x_.narrow(0, 1, 1), {});
  expect_near(together.narrow(0, 1, 1), separate);
}

TEST_P(EveryMixer, TokensMeetUnlessTheNameSaysNo) {
  auto other = x_.clone();
  other.select(1, 0) += 1;
  const auto change = (mixer_->forward(x_, {}) - mixer_->forward(other, {})).abs().amax({0, 2});
  const bool met = change.narrow(0, 1, kTokens - 1).min().item<float>() > 1e-5;
  EXPECT_EQ(met, GetParam() != "none") << change;
}

TEST_P(EveryMixer, EveryParameterGetsAGradient) {
  mixer_->forward(x_, {}).square().sum().backward();
  for (const auto& item : mixer_->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
  }
}

TEST_P(EveryMixer, PaddingIsSeenByNoTokenAndGetsNoGradient) {
  const std::vector<int64_t> lengths{7, 1};
  for (int64_t i = 0; i < kBatch; ++i) x_[i].slice(0, lengths[size_t(i)]).mul_(100);
  x_.requires_grad_();
  const auto whole = mixer_->forward(x_, {.lengths = torch::tensor(lengths, torch::kLong)});
  EXPECT_TRUE(whole.isfinite().all().item<bool>());
  for (int64_t i = 0; i < kBatch; ++i) {
    const int64_t length = lengths[size_t(i)];
    const auto separate = mixer_->forward(x_.narrow(0, i, 1).narrow(1, 0, length), {})[0];
    const auto found = whole[i].narrow(0, 0, length);
    expect_near(found, separate);
    const auto weight = torch::arange(found.numel()).cos().view(found.sizes());
    const auto grad = torch::autograd::grad({found}, {x_}, {weight}, /*retain_graph=*/true)[0];
    const auto wanted = torch::autograd::grad({separate}, {x_}, {weight})[0];
    expect_near(grad, wanted);
    EXPECT_EQ(grad[i].slice(0, length).count_nonzero().item<int64_t>(), 0) << i;
  }
}

TEST_P(EveryMixer, LengthsThatHideNothingChangeNothing) {
  MixerTrace trace;
  const auto lengths = torch::full({kBatch}, kTokens, torch::kLong);
  const auto found = mixer_->forward(x_, {.trace = &trace, .lengths = lengths});
  expect_near(found, mixer_->forward(x_, {}));
  if (!trace.pi.defined()) return;
  mixer_->forward(x_, {.trace = &trace, .lengths = torch::full({kBatch}, 4, torch::kLong)});
  EXPECT_TRUE(torch::allclose(trace.pi.sum(1).narrow(1, 0, 4), torch::ones({kBatch, 4})));
  EXPECT_EQ(trace.pi.slice(2, 4).count_nonzero().item<int64_t>(), 0);
}

TEST_P(EveryMixer, OneTokenAndZeroInputStayFinite) {
  const auto one = mixer_->forward(x_.narrow(1, 0, 1), {});
  EXPECT_TRUE(one.isfinite().all().item<bool>());
  EXPECT_EQ(one.sizes(), torch::IntArrayRef({kBatch, 1, kDim}));
  EXPECT_TRUE(mixer_->forward(torch::zeros_like(x_), {}).isfinite().all().item<bool>());
}

TEST_P(EveryMixer, TracingChangesNothingAndMembershipsSumToOne) {
  MixerTrace trace;
  const auto traced = mixer_->forward(x_, {.trace = &trace});
  EXPECT_TRUE(torch::equal(traced, mixer_->forward(x_, {})));
  if (trace.pi.defined()) {
    EXPECT_EQ(trace.pi.sizes(), torch::IntArrayRef({kBatch, kHeads, kTokens}));
    EXPECT_TRUE(torch::allclose(trace.pi.sum(1), torch::ones({kBatch, kTokens})));
  }
  EXPECT_EQ(trace.pi.defined(),
            GetParam().starts_with("tssa") || GetParam() == "means" || GetParam() == "uniform");
}

TEST_P(EveryMixer, SubspacesAndProjectionGiveTheTracedTokens) {
  const torch::NoGradGuard no_grad;
  MixerTrace trace;
  mixer_->forward(x_, {.trace = &trace});
  ASSERT_EQ(mixer_->subspaces().defined(), trace.pi.defined());
  EXPECT_EQ(mixer_->project(x_).defined(), trace.pi.defined());
  if (!trace.pi.defined()) return;
  EXPECT_TRUE(torch::equal(mixer_->project(x_), trace.w));
  // By the definition: head k of w is x U_k, plus what a token of zeros becomes.
  const auto u = mixer_->subspaces();
  ASSERT_EQ(u.sizes(), torch::IntArrayRef({kHeads, kDim, kDim / kHeads}));
  const auto bias = mixer_->project(torch::zeros({1, 1, kDim}));
  for (int64_t k = 0; k < kHeads; ++k) {
    const int64_t width = kDim / kHeads;
    const auto wanted = torch::matmul(x_, u[k]) + bias.narrow(2, k * width, width);
    EXPECT_TRUE(torch::allclose(trace.w.narrow(2, k * width, width), wanted, 1e-4, 1e-5)) << k;
  }
}

TEST_P(EveryMixer, Bfloat16AutocastStaysNearFloat) {
  const auto exact = mixer_->forward(x_, {});
  const testing::Bfloat16Autocast scope;
  const auto half = mixer_->forward(x_, {}).to(torch::kFloat32);
  EXPECT_LT((half - exact).norm().item<float>(), 0.1 * exact.norm().item<float>());
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMixer, ::testing::ValuesIn(mixer_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(TokenMixers, XcaEqualsItsDefinition) {
  torch::manual_seed(5);
  auto mixer = make_mixer("xca", {.dim = 8, .heads = 2, .qkv_bias = false});
  init_linears(*mixer);
  const auto x = torch::randn({1, 5, 8});
  const auto parameters = mixer->named_parameters();
  const auto qkv = torch::matmul(x[0], parameters["qkv.weight"].t());  // [5, 24]
  std::vector<torch::Tensor> heads;
  for (int64_t h = 0; h < 2; ++h) {
    auto part = [&](int64_t which) { return qkv.narrow(1, which * 8 + h * 4, 4); };
    auto unit = [](const torch::Tensor& t) { return t / t.norm(2, 0, true); };
    auto weights = torch::matmul(unit(part(0)).t(), unit(part(1))).softmax(1);  // [P, P]
    heads.push_back(torch::matmul(part(2), weights.t()));
  }
  const auto wanted =
      torch::linear(torch::cat(heads, 1), parameters["proj.weight"], parameters["proj.bias"]);
  EXPECT_TRUE(torch::allclose(mixer->forward(x, {})[0], wanted, 1e-4, 1e-7));
}

TEST(TokenMixers, LinearAttentionEqualsItsDefinition) {
  torch::manual_seed(6);
  auto mixer = make_mixer("linear", {.dim = 6, .heads = 1, .qkv_bias = false});
  init_linears(*mixer);
  const auto x = torch::randn({1, 7, 6});
  const auto parameters = mixer->named_parameters();
  const auto qkv = torch::matmul(x[0], parameters["qkv.weight"].t());
  const auto phi_q = torch::elu(qkv.narrow(1, 0, 6)) + 1,
             phi_k = torch::elu(qkv.narrow(1, 6, 6)) + 1;
  auto weights = torch::matmul(phi_q, phi_k.t());  // the N x N matrix that the mixer never forms
  weights = weights / weights.sum(1, true);
  const auto wanted = torch::linear(torch::matmul(weights, qkv.narrow(1, 12, 6)),
                                    parameters["proj.weight"], parameters["proj.bias"]);
  EXPECT_TRUE(torch::allclose(mixer->forward(x, {})[0], wanted, 1e-4, 1e-7));
}

// Of one head in float64: what token t reads of those that `from_end` lets it see, itself included.
torch::Tensor decayed_mean(const torch::Tensor& pi, const torch::Tensor& values, double rate,
                           bool from_end, int64_t t) {
  auto sum = torch::zeros({values.size(1)}, torch::kDouble);
  double mass = 0;
  for (int64_t s = 0; s < values.size(0); ++s) {
    if (from_end ? s < t : s > t) continue;
    const double reach = std::pow(rate, double(std::abs(t - s))), share = pi[s].item<double>();
    sum += reach * share * values[s];
    mass += reach * share * share;
  }
  return sum / std::sqrt(mass + 1e-6);
}

TEST(TokenMixers, MeansEqualTheirDefinition) {
  torch::manual_seed(7);
  constexpr int64_t kSize = 12, kSteps = 5;
  for (const int64_t parts : {4, 3, 1}) {
    const int64_t width = kSize / parts;
    SCOPED_TRACE(parts);
    const auto mixer = make_mixer("means", {.dim = kSize, .heads = parts, .qkv_bias = true});
    const torch::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.normal_(0, 0.7);
    const auto x = torch::randn({1, kSteps, kSize}).to(torch::kDouble);
    const auto found = mixer->forward(x.to(torch::kFloat), {})[0];
    auto p = mixer->named_parameters();
    const auto of = [&](const char* key) { return p[key].to(torch::kDouble); };
    const auto all = torch::linear(x[0], of("c_attn.weight"), of("c_attn.bias"));
    const auto pi =
        (torch::linear(x[0], of("router.weight"), of("router.bias")) * of("temp")).softmax(1) *
        double(parts);
    const auto rates = of("rates.decay").sigmoid();
    auto y = torch::zeros({kSteps, kSize}, torch::kDouble);
    for (int64_t h = 0; h < parts; ++h) {
      const auto values = all.narrow(1, kSize + h * width, width);
      const auto scale = of("means.scale").narrow(0, h * width, width);
      for (int64_t t = 0; t < kSteps; ++t) {
        const auto mean = decayed_mean(pi.select(1, h), values, rates[h].item<double>(),
                                       /*from_end=*/h >= parts - parts / 2, t);
        y[t].narrow(0, h * width, width) += scale * mean;
      }
    }
    y = (y + all.narrow(1, 0, kSize)) * torch::silu(all.narrow(1, 2 * kSize, kSize));
    const auto wanted = torch::linear(y, of("c_proj.weight"), of("c_proj.bias"));
    EXPECT_TRUE(torch::allclose(found.to(torch::kDouble), wanted, 1e-4, 1e-5));
  }
}

TEST(TokenMixers, WrongNamesAndHeadsAreUsageErrors) {
  try {
    make_mixer("tsa", {.dim = 8, .heads = 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("'tssa'"), std::string::npos) << error.what();
  }
  for (const auto& name : mixer_names()) {
    EXPECT_THROW(make_mixer(name, {.dim = 8, .heads = 3}), Error);
    EXPECT_THROW(make_mixer(name, {.dim = 8, .heads = 0}), Error);
  }
}

TEST(TokenMixers, NamesOfVersion010MeanWhatTheyMeantInEachDirection) {
  EXPECT_EQ(mixer_in_use("tssa-running-means"), "means");
  EXPECT_EQ(mixer_in_use("tssa-uniform"), "uniform");
  EXPECT_EQ(causal_mixer_in_use("tssa-uniform"), "uniform");
  EXPECT_EQ(causal_mixer_in_use("tssa-means"), "means");
  for (const auto& name : mixer_names()) EXPECT_EQ(mixer_in_use(name), name);
  for (const auto& name : causal_mixer_names()) EXPECT_EQ(causal_mixer_in_use(name), name);
  const auto one = make_mixer("tssa-running-means", {.dim = 8, .heads = 2})->parameters();
  EXPECT_EQ(one.size(), make_mixer("means", {.dim = 8, .heads = 2})->parameters().size());
}

TEST(TokenMixers, DroppedOnesAreRefusedWithTheBuildsThatReadThem) {
  for (const char* name :
       {"tssa-means", "tssa-group-means", "tssa-length-free", "tssa-running-means-uniform"}) {
    const auto found = testing::usage_error_of([&] { make_mixer(name, {.dim = 8, .heads = 2}); });
    EXPECT_NE(found.find("was dropped; only earlier builds of tost 0.1.0"), std::string::npos)
        << name;
  }
  const auto causal = testing::usage_error_of(
      [] { make_causal_mixer("tssa-means-uniform", {.dim = 8, .heads = 2, .block = 4}); });
  EXPECT_NE(causal.find("only earlier builds of tost 0.1.0"), std::string::npos) << causal;
  // Causal alone, or in both directions alone: never dropped.
  EXPECT_NE(testing::usage_error_of([] {
              make_mixer("delta", {.dim = 8, .heads = 2});
            }).find("There is no token mixer 'delta'"),
            std::string::npos);
}

}  // namespace token_mixer_test
}  // namespace tost
