// The operator of the delta rule against its plain form in float64.
#include "tost/ops/delta.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

DeltaCall draw(at::ScalarType type, bool decays, bool tokens_first = false) {
  torch::manual_seed(5);
  const int64_t batch = 2, heads = 3, tokens = 150;
  const auto heads_of = [&](int64_t width) {
    return tokens_first ? torch::randn({batch, tokens, heads, width}).transpose(1, 2)
                        : torch::randn({batch, heads, tokens, width});
  };
  const auto unit = [](const Tensor& x) { return x / x.norm(2, -1, true); };
  DeltaCall call{unit(heads_of(24)).to(type),
                 unit(heads_of(24)).to(type),
                 heads_of(17).to(type),
                 torch::rand({batch, heads, tokens}).mul(2).to(type),
                 {}};
  if (decays) call.log_decay = (torch::rand({batch, heads, tokens}) * -0.5).to(type);
  return call;
}

std::vector<Tensor*> tensors(DeltaCall& call) {
  std::vector<Tensor*> all{&call.q, &call.k, &call.v, &call.beta};
  if (call.log_decay.defined()) all.push_back(&call.log_decay);
  return all;
}
std::vector<Tensor> leaves(DeltaCall& call) {
  std::vector<Tensor> all;
  for (Tensor* x : tensors(call)) {
    *x = x->detach().set_requires_grad(true);
    all.push_back(*x);
  }
  return all;
}
DeltaCall wide(const DeltaCall& call) {
  DeltaCall same = call;
  for (Tensor* x : tensors(same)) *x = x->detach().to(torch::kDouble);
  return same;
}
double error(const Tensor& found, const Tensor& wanted) {
  return ((found.to(torch::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
}

TEST(Delta, OutputsStateAndGradientsAreThoseOfThePlainForm) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const double allowed = type == torch::kFloat ? 5e-6 : 2e-2;
    for (const bool decays : {false, true}) {
      for (const bool tokens_first : {false, true}) {
        DeltaCall call = draw(type, decays, tokens_first), same = wide(call);
        const auto inputs = leaves(call), plain_inputs = leaves(same);
        Tensor state = torch::randn({2, 3, 24, 17}), plain_state = state.to(torch::kDouble);
        const Tensor o = gated_delta(call, state), wanted = gated_delta_plain(same, plain_state);
        EXPECT_EQ(o.scalar_type(), type);
        EXPECT_LT(error(o, wanted), allowed);
        EXPECT_LT(error(state, plain_state), allowed);
        const auto weight = torch::randn_like(wanted);
        const auto grads = torch::autograd::grad({o}, inputs, {weight.to(type)});
        const auto plain = torch::autograd::grad({wanted}, plain_inputs, {weight});
        for (size_t i = 0; i < grads.size(); ++i) {
          EXPECT_EQ(grads[i].scalar_type(), type);
          EXPECT_LT(error(grads[i], plain[i]), allowed) << i;
        }
      }
    }
  }
}

TEST(Delta, GradientsAreDifferentiatedAgainByThePlainForm) {
  DeltaCall call = draw(torch::kFloat, true), same = wide(call);
  const auto second = [](DeltaCall& c) {
    const auto inputs = leaves(c);
    Tensor state;
    const Tensor o = gated_delta(c, state);
    const auto first = torch::autograd::grad({o.square().sum()}, inputs, {}, true, true);
    return torch::autograd::grad({first[1].square().sum()}, {c.k})[0];
  };
  EXPECT_LT(error(second(call), second(same)), 1e-4);
}

TEST(Delta, ThreadsAndGradientsChangeNoBit) {
  DeltaCall call = draw(torch::kFloat, true);
  const int threads = at::get_num_threads();
  Tensor one, three;
  at::set_num_threads(1);
  const Tensor o = gated_delta(call, one);
  at::set_num_threads(3);
  leaves(call);
  EXPECT_TRUE(torch::equal(gated_delta(call, three), o));
  EXPECT_TRUE(torch::equal(one, three));
  at::set_num_threads(threads);
}

TEST(Delta, SizesThatDoNotFitAreRefused) {
  DeltaCall call = draw(torch::kFloat, true);
  Tensor state = torch::zeros({2, 3, 24, 16});
  EXPECT_NE(
      testing::usage_error_of([&] { gated_delta(call, state); }).find("state [2, 3, 24, 16]."),
      std::string::npos);
  call.beta = call.beta.narrow(2, 0, 9);
  Tensor none;
  EXPECT_NE(testing::usage_error_of([&] { gated_delta(call, none); }).find("beta [2, 3, 9], log"),
            std::string::npos);
}

}  // namespace
}  // namespace tost
