// What torch cannot show of the causal kernels: misaligned pointers, missing results, memory beyond
// the ends, a state updated in place, schedules.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

// The forward in float64, token by token, without a state: w and y [B, T, C].
void causal_reference(const TssaShape& shape, const float* w, const float* temp,
                      const CausalBias& bias, double* y) {
  const auto [batch, tokens, heads, width] = shape;
  const int64_t channels = heads * width;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> energy(channels), moment(channels), pi(heads), pi_sum(heads);
    for (int64_t t = 0; t < tokens; ++t, w += channels, y += channels) {
      double sum = 0;
      for (int64_t k = 0; k < heads; ++k) {
        double logit = t < bias.covered(tokens)
                           ? double(width) * bias.data[k * bias.length + bias.position + t]
                           : 0;
        for (int64_t c = k * width; c < (k + 1) * width; ++c) {
          energy[c] += double(w[c]) * w[c];
          logit += double(w[c]) * w[c] / std::max(energy[c], 1e-12);
        }
        sum += pi[k] = std::exp(temp[k] * logit);
      }
      for (int64_t k = 0; k < heads; ++k) pi_sum[k] += pi[k] /= sum;
      for (int64_t c = 0; c < channels; ++c) {
        moment[c] += pi[c / width] * w[c] * w[c];
        y[c] = -w[c] * pi[c / width] / (1 + moment[c] / (pi_sum[c / width] + 1e-8));
      }
    }
  }
}

struct Result {
  std::vector<float> y, pi, carry, grad_w, grad_temp, grad_bias;
  std::vector<double> state, pi_carry;
};

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

Result run(const TssaShape& shape, int64_t offset, int64_t pad, int threads) {
  const ParallelFor parallel = threads == 1 ? ParallelFor(serial_for) : ParallelFor(kTwoThreads);
  Padded w(shape, offset, pad), g(shape, offset + 1, pad), y(shape, offset, pad + 1),
      grad_w(shape, offset + 2, pad);
  w.fill(1);
  g.fill(2);
  const int64_t chunks = causal_chunks(shape.tokens);
  const int64_t bias_length = shape.tokens / 2 + 1;
  const auto temp = random_floats(shape.heads, 3),
             bias = random_floats(shape.heads * bias_length, 4);
  Result r;
  r.state.assign(shape.batch * causal_state_size(shape), 0.25);

  CausalForwardArgs forward;
  forward.shape = shape;
  forward.w = w.const_tokens();
  forward.temp = temp.data();
  forward.bias = {bias.data(), bias_length, 1};
  forward.state = r.state.data();
  forward.y = y.tokens();
  // Without the optional results first: the answer must not depend on them.
  Workspace bare(causal_forward_workspace(forward, threads));
  causal_forward(forward, bare.data, parallel, threads);
  const auto bare_y = y.storage;
  r.pi.resize(shape.batch * shape.heads * shape.tokens);
  r.carry.resize(shape.batch * chunks * 2 * shape.channels());
  r.pi_carry.resize(shape.batch * chunks * shape.heads);
  forward.pi = r.pi.data();
  forward.carry = r.carry.data();
  forward.pi_carry = r.pi_carry.data();
  forward.next_state = r.state.data();  // in place
  Workspace full(causal_forward_workspace(forward, threads));
  causal_forward(forward, full.data, parallel, threads);
  EXPECT_EQ(bare_y, y.storage);
  EXPECT_EQ(y.canaries(), y.expected_canaries());

  CausalBackwardArgs backward;
  backward.shape = shape;
  backward.w = w.const_tokens(), backward.grad_y = g.const_tokens();
  backward.temp = temp.data(), backward.bias = forward.bias;
  backward.pi = r.pi.data(), backward.carry = r.carry.data();
  backward.pi_carry = r.pi_carry.data();
  r.grad_temp.resize(shape.heads);
  r.grad_bias.resize(shape.heads * bias_length);
  backward.grad_w = grad_w.tokens();
  backward.grad_temp = r.grad_temp.data(), backward.grad_bias = r.grad_bias.data();
  Workspace workspace(causal_backward_workspace(backward, threads));
  causal_backward(backward, workspace.data, parallel, threads);
  EXPECT_EQ(grad_w.canaries(), grad_w.expected_canaries());
  y.for_each([&](float x) { r.y.push_back(x); });
  grad_w.for_each([&](float x) { r.grad_w.push_back(x); });
  return r;
}

template <class T>
void expect_same(const std::vector<T>& a, const std::vector<T>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) << what;
}
void expect_same(const Result& a, const Result& b) {
  expect_same(a.y, b.y, "y");
  expect_same(a.pi, b.pi, "pi");
  expect_same(a.state, b.state, "state");
  expect_same(a.carry, b.carry, "carry");
  expect_same(a.pi_carry, b.pi_carry, "pi_carry");
  expect_same(a.grad_w, b.grad_w, "grad_w");
  expect_same(a.grad_temp, b.grad_temp, "grad_temp");
  expect_same(a.grad_bias, b.grad_bias, "grad_bias");
}

TEST(CausalKernel, AlignmentStridesAndThreadsChangeNothing) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    // By sample, and by window over heads where two threads cannot halve the batch.
    for (const TssaShape& shape :
         {TssaShape{1, 1, 1, 1}, TssaShape{2, 7, 3, 5}, TssaShape{2, 300, 4, 32},
          TssaShape{3, 200, 3, 45}, TssaShape{5, 50, 300, 1}}) {
      SCOPED_TRACE(::testing::Message() << isa << " " << shape.batch << "x" << shape.tokens << "x"
                                        << shape.heads << "x" << shape.width);
      const Result aligned = run(shape, 0, 0, 1);
      expect_same(aligned, run(shape, 1, 0, 1));
      expect_same(aligned, run(shape, 3, 5, 2));
      expect_same(aligned, run(shape, 0, 0, 2));
    }
  }
  force_isa("auto");
}

TEST(CausalKernel, SeveralWindowsAreOneSequence) {
  const TssaShape shape{1, 700, 16, 64};  // windows of 512 tokens
  expect_same(run(shape, 0, 0, 1), run(shape, 0, 0, 2));
}

TEST(CausalKernel, StateFollowsItsDefinition) {
  const TssaShape shape{2, 130, 3, 7};
  const Result r = run(shape, 0, 0, 1);
  Padded w(shape, 0, 0);
  w.fill(1);
  const int64_t channels = shape.channels();
  for (int64_t b = 0; b < shape.batch; ++b) {
    const double* state = r.state.data() + b * causal_state_size(shape);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t k = c / shape.width;
      double energy = 0.25, weighted = 0.25, members = 0.25;
      for (int64_t t = 0; t < shape.tokens; ++t) {
        const double square = std::pow(static_cast<double>(w.at(b, t, c)), 2);
        const double pi = r.pi[(b * shape.heads + k) * shape.tokens + t];
        energy += square, weighted += pi * square, members += pi;
        if (t != 127) continue;
        const float* carry = r.carry.data() + (b * 3 + 2) * 2 * channels;
        EXPECT_NEAR(carry[c] / energy, 1, 1e-6);
        EXPECT_NEAR(carry[channels + c] / weighted, 1, 1e-6);
      }
      EXPECT_NEAR(state[c] / energy, 1, 1e-6);
      EXPECT_NEAR(state[channels + c] / weighted, 1, 1e-6);
      EXPECT_NEAR(state[2 * channels + k] / members, 1, 1e-6);
    }
  }
}

TEST(CausalKernel, OutputsAreThoseOfTheReference) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const TssaShape& shape : {TssaShape{1, 1, 1, 1}, TssaShape{2, 7, 3, 5},
                                   TssaShape{1, 200, 2, 16}, TssaShape{3, 65, 4, 33}}) {
      SCOPED_TRACE(::testing::Message() << isa << " " << shape.tokens << "x" << shape.width);
      Padded w(shape, 0, 0), y(shape, 0, 0);
      w.fill(1);
      const auto temp = random_floats(shape.heads, 3);
      auto bias = random_floats(shape.heads * 9, 4);
      for (float& x : bias) x *= 0.05f;
      CausalForwardArgs args;
      args.shape = shape;
      args.w = w.const_tokens(), args.y = y.tokens();
      args.temp = temp.data(), args.bias = {bias.data(), 9, 2};
      Workspace workspace(causal_forward_workspace(args, 1));
      causal_forward(args, workspace.data, serial_for, 1);
      std::vector<double> wanted(shape.batch * shape.tokens * shape.channels());
      causal_reference(shape, w.storage.data(), temp.data(), args.bias, wanted.data());
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(y.storage[i], wanted[i], 5e-6);
    }
  }
  force_isa("auto");
}

TEST(CausalKernel, NothingToDo) {
  run({0, 5, 2, 3}, 0, 0, 2);
  const Result r = run({2, 0, 2, 3}, 0, 0, 2);
  for (const double x : r.state) EXPECT_EQ(x, 0.25);
  for (const float x : r.grad_temp) EXPECT_EQ(x, 0.0f);
  for (const float x : r.grad_bias) EXPECT_EQ(x, 0.0f);
}

}  // namespace
}  // namespace tost::kernels
