// The kernels of group means against the plain form in float64: values, gradients, states, every
// instruction set. What is allowed is a multiple of the error that the plain form itself makes.
#include "tost/ops/means.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/testing/errors.h"
#include "tost/kernels/isa.h"
#include "tost/torch.h"

namespace tost {
namespace group_means_test {

using torch::Tensor;

struct MeansCase {
  std::string name;
  int64_t batch, tokens, heads, width;
  bool gate = true, decay = true;
  double scale = 1;     // of the values
  double rate = 3;      // log rates are drawn from [-rate, 0]
  bool sliced = false;  // inputs are columns of one tensor, as a joint projection leaves them
  bool zero_pi = false;
  int64_t from_end = 0;

  int64_t channels() const { return heads * width; }
};

std::ostream& operator<<(std::ostream& out, const MeansCase& c) {
  return out << c.name;
}

std::vector<MeansCase> means_cases() {
  std::vector<MeansCase> cases{
      {"model", 2, 130, 8, 16, true, true, 1, 1, true},
      {"no_gate", 2, 70, 4, 16, false, true, 1, 1},
      {"no_decay", 2, 70, 4, 16, true, false},
      {"neither", 1, 200, 3, 8, false, false},
      {"one_token", 3, 1, 4, 16},
      {"one_head", 2, 19, 1, 24},
      {"many_heads", 1, 9, 65, 1},
      {"long", 1, 700, 2, 8, true, true, 1, 0.01},
      {"fast_forgetting", 2, 70, 3, 8, true, true, 1, 40},
      {"tiny", 2, 66, 3, 8, true, true, 1e-6},
      {"large", 2, 66, 3, 8, true, true, 1e4},
      {"huge", 2, 66, 3, 8, false, true, 1e15},
      {"zero_values", 2, 20, 3, 8, true, true, 0},
      {"zero_pi", 2, 20, 3, 8, true, true, 1, 1, false, true},
      {"sliced", 2, 21, 3, 7, true, true, 1, 1, true},
      {"both_ends", 2, 130, 8, 16, true, true, 1, 1, true, false, 4},
      {"both_ends_no_gate", 2, 75, 3, 5, false, true, 1, 1, false, false, 1},
      {"all_from_end", 1, 66, 2, 8, true, false, 1, 1, false, false, 2},
      {"both_ends_one_token", 2, 1, 2, 8, true, true, 1, 1, false, false, 1},
      {"both_ends_empty", 2, 0, 2, 8, true, true, 1, 1, false, false, 1},
      {"empty", 2, 0, 3, 8},
      {"no_batch", 0, 5, 3, 8},
  };
  for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65}) {
    cases.push_back({"w" + std::to_string(width), 1, 7 + width % 4, 3, width});
  }
  for (const int64_t tokens : {2, 7, 8, 9, 63, 64, 65, 127, 128, 129}) {
    cases.push_back({"n" + std::to_string(tokens), 1, tokens, 2, 6});
  }
  return cases;
}

// Chunks enough for several threads of a scan, and heads of many channels.
std::vector<MeansCase> means_gpu_cases() {
  auto cases = means_cases();
  cases.push_back({"many_chunks", 1, 1300, 2, 8, true, true, 1, 0.01});
  for (const int64_t width : {45, 128, 200, 256}) {
    cases.push_back({"wide" + std::to_string(width), 1, 70, 2, width});
  }
  return cases;
}

struct Inputs {
  MeansCall call;
  Tensor scale, grad;
  Tensor sums;  // before the first token; undefined: zeros, and the last ones are not asked for
};

// Deterministic in the case, float64 with values that `dtype` has.
Inputs inputs_of(const MeansCase& c, torch::ScalarType dtype, bool state = false) {
  torch::manual_seed(5);
  const auto wide = torch::kFloat64;
  const auto tokens = [&] {
    return torch::randn({c.batch, c.tokens, c.channels()}, wide).to(dtype).to(wide);
  };
  Inputs in;
  in.call.base = tokens();
  in.call.values = (tokens() * c.scale).to(dtype).to(wide);
  if (c.gate) in.call.gate = (tokens() * 3).to(dtype).to(wide);
  const auto logits = torch::randn({c.batch, c.tokens, c.heads}, wide);
  in.call.pi = (logits.softmax(-1) * double(c.heads)).to(torch::kFloat).to(wide);
  if (c.zero_pi) in.call.pi.zero_();
  if (c.decay)
    in.call.log_rates = (torch::rand({c.heads}, wide) * -c.rate).to(torch::kFloat).to(wide);
  in.call.from_end = c.from_end;
  in.scale = torch::rand({c.channels()}, wide).add(0.5).to(torch::kFloat).to(wide);
  in.grad = tokens();
  if (state) {
    in.sums = torch::rand({c.batch, c.heads, c.width + 1}, wide);
    in.sums.narrow(2, 0, c.width).sub_(0.5).mul_(20 * c.scale);
  }
  return in;
}

// The same in a dtype; parameters and memberships stay float32 at least.
Inputs cast(const Inputs& in, torch::ScalarType dtype, bool sliced) {
  const auto parameters = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat;
  const auto to = [](const Tensor& x, torch::ScalarType type) {
    return x.defined() ? x.to(type).detach().clone() : x;
  };
  Inputs result{{to(in.call.base, dtype), to(in.call.values, dtype), to(in.call.gate, dtype),
                 to(in.call.pi, parameters), to(in.call.log_rates, parameters), in.call.from_end},
                to(in.scale, parameters),
                to(in.grad, dtype),
                in.sums};
  if (!sliced) return result;
  const int64_t c = in.scale.size(0);
  const auto joint = torch::cat({result.call.base, result.call.values, result.call.gate}, 2);
  result.call.base = joint.narrow(2, 0, c);
  result.call.values = joint.narrow(2, c, c);
  result.call.gate = joint.narrow(2, 2 * c, c);
  return result;
}

using Means = std::function<Tensor(const MeansCall&, const Tensor&, Tensor*)>;

// y, then the gradients of base, values, gate, pi, log_rates and scale, as far as there are any,
// then the sums after the last token.
std::vector<Tensor> run(Means means, Inputs in) {
  std::vector<Tensor> leaves;
  for (Tensor* x : {&in.call.base, &in.call.values, &in.call.gate, &in.call.pi, &in.call.log_rates,
                    &in.scale}) {
    if (!x->defined()) continue;
    *x = x->detach().requires_grad_();
    leaves.push_back(*x);
  }
  const bool state = in.sums.defined();
  const auto y = means(in.call, in.scale, state ? &in.sums : nullptr);
  auto found = torch::autograd::grad({y}, leaves, {in.grad}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = torch::zeros_like(leaves[i]);
  }
  found.insert(found.begin(), y.detach());
  if (state) found.push_back(in.sums);
  return found;
}

double distance(const Tensor& a, const Tensor& b) {
  return a.numel() == 0
             ? 0
             : (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

// What rounding of its terms, which cancel, may add to the gradient of pi.
double floor_of_pi(const Inputs& in, const std::vector<Tensor>& exact) {
  if (exact[2].numel() == 0) return 0;
  const auto terms = (exact[2] * in.call.values).abs().unflatten(2, {in.call.pi.size(2), -1});
  return 3e-7 * (terms.sum(-1) / in.call.pi.clamp_min(1e-30)).max().item<double>();
}

// `floored`: the inputs in float64, if the gradient of pi has a floor.
void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& plain,
                 const std::vector<Tensor>& exact, const Inputs* floored = nullptr) {
  ASSERT_EQ(found.size(), exact.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), exact[i].sizes()) << i;
    ASSERT_EQ(found[i].scalar_type(), plain[i].scalar_type()) << i;
    ASSERT_TRUE(found[i].isfinite().all().item<bool>()) << i;
    const double largest = exact[i].numel() == 0 ? 0 : exact[i].abs().max().item<double>();
    const bool of_pi = floored != nullptr && i == (floored->call.gate.defined() ? 4 : 3);
    EXPECT_LE(distance(found[i], exact[i]), 3 * distance(plain[i], exact[i]) + 2e-6 * largest +
                                                (of_pi ? floor_of_pi(*floored, exact) : 0))
        << "result " << i << ", largest value " << largest;
  }
}

class MeansCases : public ::testing::TestWithParam<MeansCase> {};

TEST_P(MeansCases, AgreeWithThePlainFormOnEveryIsa) {
  const MeansCase& c = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto in = inputs_of(c, dtype), narrow = cast(in, dtype, c.sliced);
    const auto plain = run(group_means_plain, narrow), exact = run(group_means_plain, in);
    for (const auto& isa : kernels::supported_isas()) {
      SCOPED_TRACE(::testing::Message() << c << " " << dtype << " " << isa);
      kernels::force_isa(isa);
      expect_near(run(group_means, narrow), plain, exact);
    }
  }
  kernels::force_isa("auto");
}

TEST_P(MeansCases, ThreadsDoNotChangeABit) {
  const auto in = cast(inputs_of(GetParam(), torch::kFloat32), torch::kFloat32, false);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = run(group_means, in);
  at::set_num_threads(3);
  const auto many = run(group_means, in);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], many[i])) << i;
}

// Parts of a text one after another, single tokens among them, give what the whole gives, and so
// does the plain form from the same state.
TEST_P(MeansCases, PartsContinueTheWhole) {
  const MeansCase& c = GetParam();
  if (c.batch == 0 || c.from_end > 0) return;
  const auto in = cast(inputs_of(c, torch::kFloat32), torch::kFloat32, false);
  const auto part = [&](int64_t first, int64_t count) {
    const auto of = [&](const Tensor& x) { return x.defined() ? x.narrow(1, first, count) : x; };
    return MeansCall{of(in.call.base), of(in.call.values), of(in.call.gate), of(in.call.pi),
                     in.call.log_rates};
  };
  Tensor whole_sums, sums;
  const auto whole = group_means(in.call, in.scale, &whole_sums);
  std::vector<Tensor> parts{whole.narrow(1, 0, 0)};
  for (int64_t t = 0, size = 1; t < c.tokens; size = 2 * size + 1) {
    const int64_t count = std::min(size, c.tokens - t);
    Tensor plain_sums = sums;
    parts.push_back(group_means(part(t, count), in.scale, &sums));
    const auto plain = group_means_plain(part(t, count), in.scale, &plain_sums);
    const double largest = std::max(1.0, plain.abs().max().item<double>());
    EXPECT_LE(distance(parts.back(), plain), 1e-5 * largest) << t;
    t += count;
  }
  const auto joined = torch::cat(parts, 1);
  if (joined.numel() == 0) return;
  EXPECT_LE(distance(joined, whole), 1e-5 * std::max(1.0, whole.abs().max().item<double>()));
  EXPECT_LE(distance(sums, whole_sums),
            1e-6 * std::max(1.0, whole_sums.abs().max().item<double>()));
}

INSTANTIATE_TEST_SUITE_P(All, MeansCases, ::testing::ValuesIn(means_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GroupMeansKernel, NaNReachesLaterTokensOfItsChannelAlone) {
  auto in = cast(inputs_of({"nan", 1, 90, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.values[0][70][3] = std::nan("");
  const auto nan = group_means(in.call, in.scale, nullptr).isnan();
  EXPECT_FALSE(nan.narrow(1, 0, 70).any().item<bool>());
  EXPECT_TRUE(nan.narrow(1, 70, 20).select(2, 3).all().item<bool>());
  EXPECT_EQ(nan.sum().item<int64_t>(), 20);
}

TEST(GroupMeansKernel, HeadsThatReadFromTheEndSeeLaterTokens) {
  auto in = cast(inputs_of({"ends", 1, 90, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.from_end = 1;
  in.call.values[0][70] = std::nan("");
  const auto nan = group_means(in.call, in.scale, nullptr).isnan();
  const auto first = nan.narrow(2, 0, 5), second = nan.narrow(2, 5, 5);
  EXPECT_FALSE(first.narrow(1, 0, 70).any().item<bool>());
  EXPECT_TRUE(first.narrow(1, 70, 20).all().item<bool>());
  EXPECT_TRUE(second.narrow(1, 0, 71).all().item<bool>());
  EXPECT_FALSE(second.narrow(1, 71, 19).any().item<bool>());
}

TEST(GroupMeansKernel, StatesAreRefusedWhereHeadsReadFromTheEnd) {
  auto in = cast(inputs_of({"ends", 2, 4, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.from_end = 1;
  Tensor sums;
  const auto message = testing::usage_error_of([&] { group_means(in.call, in.scale, &sums); });
  EXPECT_NE(message.find("from the end"), std::string::npos) << message;
}

TEST(GroupMeansKernel, StatesOfAnotherShapeAreRefused) {
  const auto in = cast(inputs_of({"state", 2, 4, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  Tensor sums = torch::zeros({3, 2, 6}, torch::kDouble);
  const auto message = testing::usage_error_of([&] { group_means(in.call, in.scale, &sums); });
  EXPECT_NE(message.find("[2, 2, 6]"), std::string::npos) << message;
  EXPECT_NE(message.find("[3, 2, 6]"), std::string::npos) << message;
}

TEST(GroupMeansKernel, SecondDerivativesEqualThePlainForms) {
  MeansCase c{"second", 1, 6, 2, 4};
  c.from_end = 1;
  const auto second = [&](Means means) {
    auto in = cast(inputs_of(c, torch::kFloat32), torch::kFloat32, false);
    const auto values = in.call.values.requires_grad_();
    const auto first = torch::autograd::grad({means(in.call, in.scale, nullptr).square().sum()},
                                             {values}, {}, true, true)[0];
    return torch::autograd::grad({first.square().sum()}, {values})[0];
  };
  EXPECT_TRUE(torch::allclose(second(group_means), second(group_means_plain), 1e-3, 1e-4));
}

}  // namespace group_means_test
}  // namespace tost
