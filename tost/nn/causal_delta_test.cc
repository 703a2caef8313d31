#include "tost/nn/causal_delta.h"

#include <gtest/gtest.h>

#include "tests/testing/stand_in_gpu.h"

namespace tost {
namespace {

using torch::Tensor;

struct Inputs {
  Tensor q, k, v, beta, log_decay, memory;
};

Inputs draw(int64_t tokens, bool decays, bool carried) {
  torch::manual_seed(3);
  const auto wide = torch::kDouble;
  const auto unit = [](const Tensor& x) { return x / x.norm(2, -1, true); };
  Inputs in{unit(torch::randn({2, 3, tokens, 5}, wide)),
            unit(torch::randn({2, 3, tokens, 5}, wide)),
            torch::randn({2, 3, tokens, 5}, wide),
            2 * torch::rand({2, 3, tokens}, wide),
            {},
            {}};
  if (decays) in.log_decay = -torch::rand({2, 3, tokens}, wide);
  if (carried) in.memory = torch::randn({2, 3, 5, 5}, wide);
  return in;
}

// The recurrence, token by token.
std::pair<Tensor, Tensor> by_tokens(const Inputs& in) {
  auto s = in.memory.defined() ? in.memory : torch::zeros({2, 3, 5, 5}, torch::kDouble);
  std::vector<Tensor> out;
  for (int64_t t = 0; t < in.q.size(2); ++t) {
    const auto k = in.k.select(2, t).unsqueeze(3), q = in.q.select(2, t).unsqueeze(2);
    if (in.log_decay.defined()) s = s * in.log_decay.select(2, t).exp().view({2, 3, 1, 1});
    const auto stored = torch::matmul(k.transpose(2, 3), s);
    const auto change =
        in.beta.select(2, t).view({2, 3, 1, 1}) * (in.v.select(2, t).unsqueeze(2) - stored);
    s = s + torch::matmul(k, change);
    out.push_back(torch::matmul(q, s));
  }
  return {torch::cat(out, 2), s};
}

TEST(DeltaRule, ChunksMatchTheRecurrence) {
  for (const int64_t tokens : {1, 2, 63, 64, 65, 200}) {
    for (const bool decays : {false, true}) {
      for (const bool carried : {false, true}) {
        const Inputs in = draw(tokens, decays, carried);
        const auto [wanted, after] = by_tokens(in);
        Tensor memory = in.memory;
        const auto found = delta_rule(in.q, in.k, in.v, in.beta, in.log_decay, &memory);
        EXPECT_TRUE(torch::allclose(found, wanted, 1e-10, 1e-10)) << tokens;
        EXPECT_TRUE(torch::allclose(memory, after, 1e-10, 1e-10)) << tokens;
      }
    }
  }
}

TEST(DeltaRule, GradientsMatchTheRecurrence) {
  Inputs in = draw(70, true, false), same = in;
  const auto weights = torch::randn({2, 3, 70, 5}, torch::kDouble);
  for (Inputs* inputs : {&in, &same}) {
    for (Tensor* x : {&inputs->q, &inputs->k, &inputs->v, &inputs->beta, &inputs->log_decay}) {
      *x = x->clone().set_requires_grad(true);
    }
  }
  (delta_rule(in.q, in.k, in.v, in.beta, in.log_decay, nullptr) * weights).sum().backward();
  (by_tokens(same).first * weights).sum().backward();
  EXPECT_TRUE(torch::allclose(in.q.grad(), same.q.grad(), 1e-8, 1e-10));
  EXPECT_TRUE(torch::allclose(in.k.grad(), same.k.grad(), 1e-8, 1e-10));
  EXPECT_TRUE(torch::allclose(in.v.grad(), same.v.grad(), 1e-8, 1e-10));
  EXPECT_TRUE(torch::allclose(in.beta.grad(), same.beta.grad(), 1e-8, 1e-10));
  EXPECT_TRUE(torch::allclose(in.log_decay.grad(), same.log_decay.grad(), 1e-8, 1e-10));
}

// Of one text in float64, token by token: at its first update a token forgets, after its last it
// reads.
Tensor mixer_by_tokens(const CausalDeltaMixer& mixer, int64_t heads, int64_t steps, double range,
                       const Tensor& x) {
  const int64_t width = x.size(1) / heads;
  const auto all = torch::silu(mixer.c_attn->forward(x)).view({-1, 1 + 2 * steps, heads, width});
  const auto betas = (range * mixer.beta->forward(x).sigmoid()).view({-1, steps, heads});
  const auto rates = torch::softplus(mixer.forget->forward(x) + mixer.decay).neg().exp();
  const auto unit = [](const Tensor& v) { return v / (v.square().sum() + 1e-6).sqrt(); };
  const auto y = torch::zeros_like(x);
  for (int64_t h = 0; h < heads; ++h) {
    auto memory = torch::zeros({width, width}, torch::kDouble);
    for (int64_t t = 0; t < x.size(0); ++t) {
      memory = memory * rates[t][h];
      for (int64_t i = 0; i < steps; ++i) {
        const auto k = unit(all[t][1 + i][h]), v = all[t][1 + steps + i][h];
        memory = memory + betas[t][i][h] * torch::outer(k, v - torch::mv(memory.t(), k));
      }
      const auto found = torch::mv(memory.t(), unit(all[t][0][h]));
      y[t].narrow(0, h * width, width) +=
          found / (found.square().mean() + 1e-5).sqrt() * mixer.norm;
    }
  }
  return mixer.c_proj->forward(y);
}

TEST(DeltaRule, MixersMatchTheirDefinition) {
  for (const int64_t range : {1, 2}) {
    for (const int64_t steps : {1, 2, 3}) {
      torch::manual_seed(6);
      CausalMixerConfig config{.dim = 12, .heads = 3, .block = 40, .bias = true};
      config.options.decay = "learned";
      config.options.beta_range = range;
      config.options.delta_steps = steps;
      CausalDeltaMixer mixer(config);
      mixer.to(torch::kDouble);
      for (auto& parameter : mixer.parameters()) parameter.detach().normal_(0, 0.5);
      const auto x = torch::randn({1, 40, 12}, torch::kDouble).set_requires_grad(true);
      const auto wanted = mixer_by_tokens(mixer, 3, steps, double(range), x[0]);
      const auto found = mixer.forward(x, {})[0];
      EXPECT_TRUE(torch::allclose(found, wanted, 1e-9, 1e-9)) << steps;
      auto inputs = mixer.parameters();
      inputs.push_back(x);
      const auto weight = torch::randn({40, 12}, torch::kDouble);
      const auto gradients = torch::autograd::grad({found}, inputs, {weight});
      const auto others = torch::autograd::grad({wanted}, inputs, {weight});
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(torch::allclose(gradients[i], others[i], 1e-7, 1e-9)) << steps << " " << i;
      }
      EXPECT_EQ(mixer.forward(x.narrow(1, 0, 0), {}).size(1), 0);
      const auto one = mixer.forward(x.narrow(1, 0, 1), {})[0];
      EXPECT_TRUE(torch::allclose(one, wanted.narrow(0, 0, 1), 1e-9, 1e-9)) << steps;
    }
  }
}

// Keys turned round at every one, as parity needs; with a range of 1 they can only fade.
TEST(DeltaRule, ARangeOfTwoCounts) {
  const auto key = torch::ones({1, 1, 101, 1}),
             ones = torch::cat({torch::ones({1, 1, 1, 1}), torch::zeros({1, 1, 100, 1})}, 2);
  auto beta = torch::full({1, 1, 101}, 2.f);
  beta[0][0][0] = 1;
  const auto found = delta_rule(key, key, ones, beta, {}, nullptr).flatten();
  EXPECT_TRUE(torch::equal(found, torch::cos(torch::arange(101) * M_PI).round()));
}

// With full strength a value is replaced by the one that comes later under the same key.
TEST(DeltaRule, TheLastValueOfAKeyIsFound) {
  const auto key = torch::zeros({1, 1, 3, 4});
  key[0][0][0][1] = key[0][0][1][2] = key[0][0][2][1] = 1;
  const auto value = torch::tensor({5.f, 6.f, 7.f}).view({1, 1, 3, 1}).expand({1, 1, 3, 4});
  const auto found = delta_rule(key, key, value, torch::ones({1, 1, 3}), {}, nullptr);
  EXPECT_TRUE(torch::equal(found, value));
  const auto half = delta_rule(key, key, value, torch::full({1, 1, 3}, 0.5), {}, nullptr);
  EXPECT_FLOAT_EQ(half[0][0][2][0].item<float>(), 0.5f * 2.5f + 3.5f);
}

TEST(DeltaRule, ALongTextKeepsTheMemoryBounded) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  const auto unit = [](const Tensor& x) { return x / x.norm(2, -1, true); };
  const auto k = unit(torch::randn({1, 2, 20000, 8})), v = torch::randn({1, 2, 20000, 8});
  const auto beta = torch::rand({1, 2, 20000});
  Tensor memory, wide;
  delta_rule(k, k, v, beta, {}, &memory);
  delta_rule(k.to(torch::kDouble), k.to(torch::kDouble), v.to(torch::kDouble),
             beta.to(torch::kDouble), {}, &wide);
  EXPECT_LT(memory.abs().max().item<float>(), 50);
  EXPECT_LT((memory - wide).abs().max().item<double>(), 1e-4);
}

TEST(DeltaRule, AutocastLeavesItAlone) {
  Inputs in = draw(50, true, true);
  const auto wanted = delta_rule(in.q, in.k, in.v, in.beta, in.log_decay, &in.memory);
  in = draw(50, true, true);
  const testing::Bfloat16Autocast autocast;
  EXPECT_TRUE(
      torch::equal(delta_rule(in.q, in.k, in.v, in.beta, in.log_decay, &in.memory), wanted));
}

}  // namespace
}  // namespace tost
