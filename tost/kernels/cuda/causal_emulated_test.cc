// The GPU's causal kernels, run by the emulator, against the CPU's.
#include <gtest/gtest.h>

#include <vector>

#include "tost/kernels/cuda/emulated_test_util.h"
#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels::cuda {
namespace {

struct Case {
  TssaShape shape;
  int64_t pad = 0;  // between rows: odd strides leave packs of one channel
  float scale = 1;
  int64_t bias_length = 5, position = 0;
  bool state = true;
};

// One token, whole and broken chunks, heads of one to sixteen tokens a thread, no bias, no state,
// and chunks enough for several threads of scan_chunks().
const Case kCases[] = {
    {{1, 1, 1, 1}},
    {{3, 1, 2, 8}, 0, 1, 5, 3},
    {{2, 0, 2, 4}},
    {{2, 130, 3, 64}},
    {{1, 64, 2, 16}, 0, 1, 100, 7},
    {{2, 200, 2, 32}, 4, 1, 0, 0},
    {{2, 67, 5, 7}, 0, 1, 40, 30},
    {{1, 90, 2, 128}, 0, 1, 5, 0, false},
    {{1, 70, 2, 200}},
    {{1, 65, 2, 45}, 1},
    {{1, 100, 2, 8}, 0, 1e-8f},
    {{1, 100, 2, 8}, 0, 1e12f},
    {{1, 1100, 2, 8}},
};

constexpr int64_t kShared = 227 << 10;  // of an H100's block

struct Result {
  std::vector<float> y, pi, grad_w, grad_temp, grad_bias;
  std::vector<double> state;
};

class EmulatedCausalTssa : public ::testing::TestWithParam<Case> {
 protected:
  // On the CPU's kernels, or on the GPU's with the emulator; forward alone without `keep`.
  static Result run(bool emulated, bool keep) {
    const auto& [shape, pad, scale, bias_length, position, with_state] = GetParam();
    const int64_t chunks = causal_chunks(shape.tokens);
    Padded w(shape, 0, pad), g(shape, 0, pad), y(shape, 0, pad), grad_w(shape, 0, pad);
    w.fill(1);
    g.fill(2);
    w.for_each([s = scale](float& x) { x *= s; });
    std::vector<float> temp(shape.heads), bias(shape.heads * bias_length);
    for (size_t k = 0; k < temp.size(); ++k) temp[k] = 0.5f + 0.25f * float(k);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * float(i % 7) - 0.3f;
    std::vector<float> carry(shape.batch * chunks * 2 * shape.channels());
    std::vector<double> pi_carry(shape.batch * chunks * shape.heads);
    Result r;
    std::vector<float> grad_pi(shape.batch * shape.heads * shape.tokens);
    for (size_t i = 0; i < grad_pi.size(); ++i) grad_pi[i] = 0.02f * float(i % 11) - 0.1f;
    r.pi.resize(shape.batch * shape.heads * shape.tokens);
    r.grad_temp.resize(shape.heads), r.grad_bias.resize(bias.size());
    r.state.assign(shape.batch * causal_state_size(shape), 0.25 * scale * scale);

    CausalForwardArgs forward;
    forward.shape = shape, forward.w = w.const_tokens(), forward.temp = temp.data();
    forward.bias = {bias.data(), bias_length, position};
    forward.state = with_state ? r.state.data() : nullptr;
    forward.next_state = r.state.data();  // in place
    forward.y = y.tokens(), forward.pi = r.pi.data();
    if (keep) forward.carry = carry.data(), forward.pi_carry = pi_carry.data();
    CausalBackwardArgs backward;
    backward.shape = shape, backward.w = forward.w, backward.grad_y = g.const_tokens();
    backward.temp = temp.data(), backward.bias = forward.bias, backward.pi = r.pi.data();
    backward.carry = carry.data(), backward.pi_carry = pi_carry.data();
    backward.grad_w = grad_w.tokens(), backward.grad_temp = r.grad_temp.data();
    backward.grad_bias = r.grad_bias.data();
    backward.grad_pi = grad_pi.data();
    if (emulated) {
      EXPECT_TRUE(supports_causal(shape));
      Workspace one(forward_workspace(forward)), two(backward_workspace(backward));
      EXPECT_EQ(causal_forward(forward, one.data, kShared, nullptr), 0);
      if (keep) {
        EXPECT_EQ(causal_backward(backward, two.data, nullptr), 0);
      }
    } else {
      Workspace one(causal_forward_workspace(forward, 1));
      Workspace two(causal_backward_workspace(backward, 1));
      kernels::causal_forward(forward, one.data, serial_for, 1);
      if (keep) kernels::causal_backward(backward, two.data, serial_for, 1);
    }
    EXPECT_EQ(y.canaries(), y.expected_canaries());
    y.for_each([&](float x) { r.y.push_back(x); });
    if (keep) grad_w.for_each([&](float x) { r.grad_w.push_back(x); });
    return r;
  }
};

TEST_P(EmulatedCausalTssa, EqualsTheCpuToRounding) {
  const Result found = run(true, true), wanted = run(false, true);
  expect_close(found.pi, wanted.pi, 1e-5, "pi");
  expect_close(found.state, wanted.state, 1e-6, "state");
  expect_close(found.y, wanted.y, 1e-5, "y");
  expect_close(found.grad_w, wanted.grad_w, 3e-5, "grad_w");
  expect_close(found.grad_temp, wanted.grad_temp, 3e-5, "grad_temp");
  expect_close(found.grad_bias, wanted.grad_bias, 3e-5, "grad_bias");
}

TEST_P(EmulatedCausalTssa, WithoutCarryAndInOneStepIsTheSame) {
  const Result bare = run(true, false), kept = run(true, true);
  expect_close(bare.y, kept.y, 1e-6, "y");
  expect_close(bare.pi, kept.pi, 1e-6, "pi");
  expect_close(bare.state, kept.state, 1e-6, "state");
}

TEST_P(EmulatedCausalTssa, DoesNotDependOnTheOrderOfThreads) {
  const Result one = run(true, true);
  const DescendingThreads descending;
  const Result two = run(true, true);
  EXPECT_EQ(one.y, two.y);
  EXPECT_EQ(one.pi, two.pi);
  EXPECT_EQ(one.grad_w, two.grad_w);
  EXPECT_EQ(one.grad_temp, two.grad_temp);
  EXPECT_EQ(one.grad_bias, two.grad_bias);
  EXPECT_EQ(one.state, two.state);
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedCausalTssa, ::testing::ValuesIn(kCases));

std::vector<float> outputs_of_first(int64_t tokens) {
  const TssaShape shape{1, tokens, 2, 4};
  Padded w({1, 17000, 2, 4}, 0, 0), y(shape, 0, 0);
  w.fill(1);
  const std::vector<float> temp{0.5f, 1.0f};
  CausalForwardArgs args;
  args.shape = shape, args.temp = temp.data(), args.w = w.const_tokens(), args.y = y.tokens();
  Workspace workspace(forward_workspace(args));
  EXPECT_EQ(causal_forward(args, workspace.data, kShared, nullptr), 0);
  return std::vector<float>(y.storage.begin(), y.storage.begin() + tokens * shape.channels());
}

// Bit for bit: however many threads the chunks that follow bring, and turns of all of them.
TEST(EmulatedCausalTssa, DoesNotDependOnLaterTokens) {
  const auto all = outputs_of_first(17000);
  for (const int64_t tokens : {64, 700, 5000}) {
    const auto first = outputs_of_first(tokens);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin())) << tokens;
  }
}

// A step keeps C + 2 H floats in a block's shared memory; more channels than fit there go through
// the passes for many tokens.
TEST(EmulatedCausalTssa, OneTokenOfVeryManyChannelsEqualsTheCpu) {
  const TssaShape shape{1, 1, 230, 256};
  Padded w(shape, 0, 0), found(shape, 0, 0), wanted(shape, 0, 0);
  w.fill(1);
  const std::vector<float> temp(230, 0.5f);
  CausalForwardArgs args;
  args.shape = shape, args.temp = temp.data(), args.w = w.const_tokens(), args.y = found.tokens();
  Workspace one(forward_workspace(args));
  ASSERT_EQ(causal_forward(args, one.data, kShared, nullptr), 0);
  args.y = wanted.tokens();
  Workspace two(causal_forward_workspace(args, 1));
  kernels::causal_forward(args, two.data, serial_for, 1);
  std::vector<float> a, b;
  found.for_each([&](float x) { a.push_back(x); });
  wanted.for_each([&](float x) { b.push_back(x); });
  expect_close(a, b, 1e-5, "y");
}

TEST(EmulatedCausalTssa, TakesHeadsOf256ChannelsAndAsManyAsAGridCounts) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  EXPECT_FALSE(supports_causal({1, 2, 1, 257}));
  EXPECT_TRUE(supports_causal({1, 2, 1, 256}));
  EXPECT_TRUE(supports_causal({kMost, 64, 1, 1}));
  EXPECT_FALSE(supports_causal({kMost, 65, 1, 1}));
  EXPECT_FALSE(supports_causal({1 << 20, 1, 1 << 11, 1}));
  EXPECT_FALSE(supports_causal({1, 0, kMost + 1, 1}));
  EXPECT_TRUE(supports_causal({0, 5, 2, 4}));
}

}  // namespace
}  // namespace tost::kernels::cuda
