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
  int64_t cache_bytes = 0;  // small ones cut the batch into groups
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
    {{5, 40, 2, 16}, 0, 1, {}, 2, 22000},
    {{5, 40, 3, 7}, 5, 1, {40, 0, 13, 39, 40}, 7, 16000},
    {{3, 33, 4, 16}, 0, 1, {}, 2, 1},
};

struct Result {
  std::vector<float> y, pi, energy, moment, pi_sum, grad_w, grad_temp;
};

// Shared memory of a block that holds whole samples, and of one that does not.
constexpr int64_t kLarge = 227 << 10, kNone = 0;

class EmulatedTssa : public ::testing::TestWithParam<Case> {
 protected:
  // On the CPU's kernels, or on the GPU's with the emulator.
  Result run(bool emulated, int64_t shared_bytes = kNone) {
    const auto& [shape, pad, scale, lengths, multiprocessors, cache_bytes] = GetParam();
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
    const DeviceFacts device{multiprocessors, shared_bytes, cache_bytes};

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
      in_groups_ = samples_at_once(forward, device) < shape.batch;
      const bool once = reads_once(forward, device);
      EXPECT_FALSE(once && shared_bytes == kNone && shape.tokens > 0);
      EXPECT_TRUE(!once || forward_workspace(forward, device) == 0);
      by_one_block_ = once;
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

  void expect_equal(const Result& found, const Result& wanted);
  bool by_one_block_ = false, in_groups_ = false;
};

void EmulatedTssa::expect_equal(const Result& found, const Result& wanted) {
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

TEST_P(EmulatedTssa, EqualsTheCpuToRounding) {
  const Result wanted = run(false);
  expect_equal(run(true), wanted);
  EXPECT_EQ(in_groups_, GetParam().cache_bytes > 0);
  expect_equal(run(true, kLarge), wanted);
  // All but these fit.
  const TssaShape& shape = GetParam().shape;
  EXPECT_EQ(by_one_block_, shape.tokens * shape.channels() * 4 < (220 << 10));
}

TEST_P(EmulatedTssa, DoesNotDependOnTheOrderOfThreads) {
  for (const int64_t shared : {kNone, kLarge}) {
    const Result one = run(true, shared);
    const DescendingThreads descending;
    const Result two = run(true, shared);
    EXPECT_EQ(one.y, two.y);
    EXPECT_EQ(one.pi, two.pi);
    EXPECT_EQ(one.energy, two.energy);
    EXPECT_EQ(one.moment, two.moment);
    EXPECT_EQ(one.pi_sum, two.pi_sum);
    EXPECT_EQ(one.grad_w, two.grad_w);
    EXPECT_EQ(one.grad_temp, two.grad_temp);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedTssa, ::testing::ValuesIn(kCases));

// y of values stored in 16 bits is that of the same values in 32, rounded.
template <class T>
void expect_rounded(DType dtype, double limit, int64_t shared_bytes) {
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
  const DeviceFacts device{2, shared_bytes};
  EXPECT_EQ(reads_once(args, device), shared_bytes == kLarge);
  Workspace one(forward_workspace(args, device));
  ASSERT_EQ(tssa_forward(args, one.data, device, nullptr), 0);
  args.dtype = DType::kFloat32, args.w.data = wide.data(), args.y.data = wide_y.data();
  Workspace two(tssa_forward_workspace(args));
  kernels::tssa_forward(args, two.data, serial_for, 1);
  expect_close(widened(y), wide_y, limit, "y");
}

TEST(EmulatedTssa, RoundsSixteenBitStorage) {
  for (const int64_t shared : {kNone, kLarge}) {
    expect_rounded<Bfloat16>(DType::kBfloat16, 1.0 / 256, shared);
    expect_rounded<Float16>(DType::kFloat16, 1.0 / 2048, shared);
  }
}

// The sizes of the vision models at 224 pixels, on a device of 132 multiprocessors.
TEST(EmulatedTssa, HoldsWholeSamplesWhereTheyFitAndAreMany) {
  const DeviceFacts device{132, kLarge};
  const auto once = [&](int64_t batch, int64_t tokens, int64_t channels, DType dtype) {
    TssaForwardArgs args;
    args.shape = {batch, tokens, channels / 64, 64}, args.dtype = dtype;
    args.w = {nullptr, tokens * channels, channels},
    args.y = {nullptr, tokens * channels, channels};
    return reads_once(args, device);
  };
  EXPECT_TRUE(once(64, 196, 192, DType::kFloat32));
  EXPECT_TRUE(once(64, 196, 384, DType::kBfloat16));
  EXPECT_FALSE(once(64, 196, 384, DType::kFloat32));
  EXPECT_FALSE(once(64, 196, 768, DType::kBfloat16));
  EXPECT_FALSE(once(64, 4096, 384, DType::kBfloat16));
  EXPECT_FALSE(once(1, 196, 384, DType::kBfloat16));  // spread over the multiprocessors
  EXPECT_TRUE(once(1, 64, 384, DType::kBfloat16));
}

// 768 channels in bfloat16 on a device with a cache of 50 MB.
TEST(EmulatedTssa, TakesAsManySamplesAtOnceAsTheCacheHolds) {
  const DeviceFacts device{132, kLarge, 50 << 20};
  TssaForwardArgs forward;
  TssaBackwardArgs backward;
  forward.dtype = backward.dtype = DType::kBfloat16;
  const auto expect = [&](int64_t batch, int64_t tokens, int64_t at_once,
                          int64_t at_once_backward) {
    forward.shape = backward.shape = {batch, tokens, 12, 64};
    EXPECT_EQ(samples_at_once(forward, device), at_once) << batch << " x " << tokens;
    EXPECT_EQ(samples_at_once(backward, device), at_once_backward) << batch << " x " << tokens;
    EXPECT_EQ(samples_at_once(forward, {132, kLarge}), batch);
  };
  expect(1, 1 << 20, 1, 1);
  expect(6, 4096, 6, 2);  // 36 MiB, and twice as many with the gradient
  expect(7, 4096, 4, 2);
  expect(32, 4096, 4, 2);
  expect(32, 0, 32, 32);
}

TEST(EmulatedTssa, LeavesOutResultsThatNobodyAsksFor) {
  const TssaShape shape{2, 50, 3, 16};
  Padded w(shape, 0, 0), y(shape, 0, 0), other(shape, 0, 0);
  w.fill(1);
  const std::vector<float> temp(shape.heads, 1.0f);
  TssaForwardArgs args;
  args.shape = shape, args.w = w.const_tokens(), args.temp = temp.data(), args.y = y.tokens();
  ASSERT_TRUE(reads_once(args, {2, kLarge}));
  ASSERT_EQ(tssa_forward(args, nullptr, {2, kLarge}, nullptr), 0);
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
