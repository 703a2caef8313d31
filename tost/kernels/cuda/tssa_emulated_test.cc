// The GPU's kernels, run by the emulator, against the CPU's.
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
  std::vector<int64_t> lengths = {};
  int multiprocessors = 2;
};

// Packs of four, of one, one token, many splits, more lanes than a small block has, padding.
const Case kCases[] = {
    {{1, 1, 1, 1}},
    {{2, 1, 3, 8}},
    {{0, 5, 2, 4}},
    {{2, 0, 2, 4}},
    {{2, 197, 3, 64}},
    {{1, 300, 6, 32}, 4},
    {{3, 67, 5, 7}},
    {{2, 33, 4, 16}, 3},
    {{1, 90, 2, 300}},
    {{1, 40, 9, 128}},
    {{1, 513, 2, 8}, 0, 1, {}, 16},
    {{3, 70, 2, 16}, 0, 1, {0, 70, 19}},
    {{2, 50, 3, 8}, 0, 1e-15f},
    {{2, 50, 3, 8}, 0, 1e8f},
    {{1, 70, 17, 64}, 0, 1},
    {{5, 40, 3, 7}, 5, 1, {40, 0, 13, 39, 40}, 7},
};

struct Result {
  std::vector<float> y, pi, energy, moment, pi_sum, grad_w, grad_temp;
};

class EmulatedTssa : public ::testing::TestWithParam<Case> {
 protected:
  // On the CPU's kernels, or on the GPU's with the emulator.
  static Result run(bool emulated) {
    const auto& [shape, pad, scale, lengths, multiprocessors] = GetParam();
    const int64_t stats = shape.batch * shape.channels();
    const int64_t memberships = shape.batch * shape.heads * shape.tokens;
    Padded w(shape, 0, pad), g(shape, 0, pad), y(shape, 0, pad), grad_w(shape, 0, pad);
    w.fill(1);
    g.fill(2);
    w.for_each([&, s = scale](float& x) { x *= s; });
    std::vector<float> temp(shape.heads);
    for (int64_t k = 0; k < shape.heads; ++k) temp[k] = 0.5f + float(k);
    Result r;
    std::vector<float> grad_pi(shape.batch * shape.heads * shape.tokens);
    for (size_t i = 0; i < grad_pi.size(); ++i) grad_pi[i] = 0.02f * float(i % 11) - 0.1f;
    r.pi.resize(memberships), r.energy.resize(stats), r.moment.resize(stats);
    r.pi_sum.resize(shape.batch * shape.heads), r.grad_temp.resize(shape.heads);

    TssaForwardArgs forward;
    forward.shape = shape, forward.w = w.const_tokens(), forward.temp = temp.data();
    forward.lengths = lengths.empty() ? nullptr : lengths.data();
    forward.y = y.tokens(), forward.pi = r.pi.data(), forward.energy = r.energy.data();
    forward.moment = r.moment.data(), forward.pi_sum = r.pi_sum.data();
    TssaBackwardArgs backward;
    backward.shape = shape, backward.w = forward.w, backward.grad_y = g.const_tokens();
    backward.temp = forward.temp, backward.lengths = forward.lengths, backward.pi = r.pi.data();
    backward.energy = r.energy.data(), backward.moment = r.moment.data();
    backward.pi_sum = r.pi_sum.data(), backward.grad_w = grad_w.tokens();
    backward.grad_temp = r.grad_temp.data();
    backward.grad_pi = grad_pi.data();
    if (emulated) {
      EXPECT_TRUE(supports(forward) && supports(backward));
      const int device = multiprocessors;
      Workspace one(forward_workspace(forward, device)), two(backward_workspace(backward, device));
      EXPECT_EQ(tssa_forward(forward, one.data, device, nullptr), 0);
      EXPECT_EQ(tssa_backward(backward, two.data, device, nullptr), 0);
    } else {
      Workspace one(tssa_forward_workspace(forward)), two(tssa_backward_workspace(backward));
      kernels::tssa_forward(forward, one.data, serial_for, 1);
      kernels::tssa_backward(backward, two.data, serial_for, 1);
    }
    EXPECT_EQ(y.canaries(), y.expected_canaries());
    EXPECT_EQ(grad_w.canaries(), grad_w.expected_canaries());
    y.for_each([&](float x) { r.y.push_back(x); });
    grad_w.for_each([&](float x) { r.grad_w.push_back(x); });
    return r;
  }
};

TEST_P(EmulatedTssa, EqualsTheCpuToRounding) {
  const Result found = run(true), wanted = run(false);
  expect_close(found.pi, wanted.pi, 1e-5f, "pi");
  expect_close(found.energy, wanted.energy, 1e-6f, "energy");
  expect_close(found.moment, wanted.moment, 1e-5f, "moment");
  expect_close(found.pi_sum, wanted.pi_sum, 1e-6f, "pi_sum");
  expect_close(found.y, wanted.y, 1e-5f, "y");
  expect_close(found.grad_w, wanted.grad_w, 2e-5f, "grad_w");
  // Of one token all logits are P, and what is left is their rounding.
  const float floor = GetParam().shape.tokens == 1 ? 1.0f : 1e-30f;
  expect_close(found.grad_temp, wanted.grad_temp, 2e-5f, "grad_temp", floor);
}

TEST_P(EmulatedTssa, DoesNotDependOnTheOrderOfThreads) {
  const Result one = run(true);
  const DescendingThreads descending;
  const Result two = run(true);
  EXPECT_EQ(one.y, two.y);
  EXPECT_EQ(one.pi, two.pi);
  EXPECT_EQ(one.energy, two.energy);
  EXPECT_EQ(one.moment, two.moment);
  EXPECT_EQ(one.pi_sum, two.pi_sum);
  EXPECT_EQ(one.grad_w, two.grad_w);
  EXPECT_EQ(one.grad_temp, two.grad_temp);
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedTssa, ::testing::ValuesIn(kCases));

// y of values stored in 16 bits is that of the same values in 32, rounded.
template <class T>
void expect_rounded(DType dtype, double limit) {
  const TssaShape shape{2, 70, 3, 16};
  const int64_t count = shape.batch * shape.tokens * shape.channels();
  Padded values(shape, 0, 0);
  values.fill(1);
  std::vector<float> plain;
  values.for_each([&](float x) { plain.push_back(x); });
  const auto narrow = stored<T>(plain);
  const auto wide = widened(narrow);
  const std::vector<float> temp(shape.heads, 1.0f);
  std::vector<T> y(count);
  std::vector<float> wide_y(count);
  TssaForwardArgs args;
  args.shape = shape, args.dtype = dtype, args.temp = temp.data();
  args.w = {narrow.data(), shape.tokens * shape.channels(), shape.channels()};
  args.y = {y.data(), shape.tokens * shape.channels(), shape.channels()};
  Workspace one(forward_workspace(args, 2));
  ASSERT_EQ(tssa_forward(args, one.data, 2, nullptr), 0);
  args.dtype = DType::kFloat32, args.w.data = wide.data(), args.y.data = wide_y.data();
  Workspace two(tssa_forward_workspace(args));
  kernels::tssa_forward(args, two.data, serial_for, 1);
  expect_close(widened(y), wide_y, limit, "y");
}

TEST(EmulatedTssa, RoundsSixteenBitStorage) {
  expect_rounded<Bfloat16>(DType::kBfloat16, 1.0 / 256);
  expect_rounded<Float16>(DType::kFloat16, 1.0 / 2048);
}

TEST(EmulatedTssa, LeavesOutResultsThatAreNotRequested) {
  const TssaShape shape{2, 50, 3, 16};
  Padded w(shape, 0, 0), y(shape, 0, 0), other(shape, 0, 0);
  w.fill(1);
  const std::vector<float> temp(shape.heads, 1.0f);
  TssaForwardArgs args;
  args.shape = shape, args.w = w.const_tokens(), args.temp = temp.data(), args.y = y.tokens();
  Workspace device_memory(forward_workspace(args, 2));
  ASSERT_EQ(tssa_forward(args, device_memory.data, 2, nullptr), 0);
  args.y = other.tokens();
  Workspace memory(tssa_forward_workspace(args));
  kernels::tssa_forward(args, memory.data, serial_for, 1);
  std::vector<float> found, wanted;
  y.for_each([&](float x) { found.push_back(x); });
  other.for_each([&](float x) { wanted.push_back(x); });
  expect_close(found, wanted, 1e-5f, "y");
}

TEST(EmulatedTssa, RefusesTokensOfTooManyPacks) {
  TssaForwardArgs args;
  args.shape = {1, 2, 3, 171};
  args.w = {nullptr, 0, 513}, args.y = {nullptr, 0, 513};
  EXPECT_FALSE(supports(args));
  args.shape = {1, 2, 8, 256}, args.w.token_stride = args.y.token_stride = 2048;
  EXPECT_TRUE(supports(args));
}

TEST(EmulatedTssa, RefusesMoreHeadsThanAGridCounts) {
  TssaForwardArgs forward;
  TssaBackwardArgs backward;
  forward.shape = backward.shape = {(1 << 28) - 1, 1, 8, 1};
  EXPECT_TRUE(supports(forward) && supports(backward));
  forward.shape.batch = backward.shape.batch = 1 << 28;
  EXPECT_FALSE(supports(forward) || supports(backward));
}

}  // namespace
}  // namespace tost::kernels::cuda
