// The GPU's passes over rows, run by the emulator, against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tost/kernels/cuda/emulated_test_util.h"
#include "tost/kernels/cuda/rows_cuda.h"
#include "tost/kernels/row_test_util.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels::cuda {
namespace {

using Floats = std::vector<float>;

struct Case {
  int64_t rows, width;
  bool bias = true;
  int64_t group = 0;   // rows a factor; 0: none
  int64_t offset = 0;  // values before the first: addresses that packs do not take

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.rows << " x " << c.width;
  }
};
// No row and one, packs and single channels, rows that end within a block and beyond it, more than
// one block of columns.
const Case kCases[] = {{0, 8},
                       {1, 2},
                       {3, 5, false},
                       {70, 16, true, 7},
                       {65, 47},
                       {66, 24, true, 0, 1},
                       {129, 264, true, 43},
                       {9, 1028, false, 3},
                       {2, 640}};

// An aligned array of either storage with marks after its end.
class Array {
 public:
  Array(DType dtype, const Floats& values, int64_t offset = 0)
      : narrow_(dtype == DType::kBfloat16),
        count_(values.size()),
        memory_((count_ + static_cast<size_t>(offset) + kMarks) * sizeof(float)),
        data_(static_cast<char*>(memory_.data) + offset * size()) {
    std::memset(memory_.data, 0x5a, memory_.storage.size() - 64);
    for (size_t i = 0; i < count_; ++i) set(i, values[i]);
  }
  Array(DType dtype, int64_t count, int64_t offset)
      : Array(dtype, Floats(static_cast<size_t>(count), -77), offset) {}

  template <class T = float>
  T* data() {
    return reinterpret_cast<T*>(data_);
  }
  Floats values() const {
    Floats result(count_);
    for (size_t i = 0; i < count_; ++i) {
      result[i] = narrow_ ? to_float(reinterpret_cast<const Bfloat16*>(data_)[i])
                          : reinterpret_cast<const float*>(data_)[i];
    }
    for (size_t i = 0; i < kMarks; ++i) EXPECT_EQ(data_[count_ * size() + i], 0x5a);
    return result;
  }

 private:
  static constexpr size_t kMarks = 16;
  int64_t size() const { return narrow_ ? 2 : 4; }
  void set(size_t i, float value) {
    if (narrow_) {
      store(reinterpret_cast<Bfloat16*>(data_) + i, value);
    } else {
      reinterpret_cast<float*>(data_)[i] = value;
    }
  }

  bool narrow_;
  size_t count_;
  Workspace memory_;
  char* data_;
};

// The inputs of every pass, and its results by the CPU's kernels or the GPU's.
class EmulatedRows : public ::testing::TestWithParam<Case> {
 protected:
  Floats tokens(float scale, float shift, uint64_t seed) const {
    return numbers(GetParam().rows * GetParam().width, scale, shift, seed);
  }
  Floats channels(uint64_t seed) const { return numbers(GetParam().width, 1, 0.5f, seed); }
  Floats of_rows(uint64_t seed) const { return numbers(GetParam().rows, 1, 0.5f, seed); }
  int64_t count() const { return GetParam().rows * GetParam().width; }
  Array wide(const Floats& values) const { return {DType::kFloat32, values, GetParam().offset}; }
  Array result(DType dtype, int64_t values) const { return {dtype, values, GetParam().offset}; }

  template <class Args>
  Args shaped(DType dtype) const {
    Args args;
    args.rows = GetParam().rows, args.width = GetParam().width, args.dtype = dtype;
    return args;
  }
  int64_t sums_workspace(bool emulated, int64_t columns) const {
    const int64_t rows = GetParam().rows;
    return emulated ? cuda::column_sums_workspace(rows, columns)
                    : kernels::column_sums_workspace(rows, columns);
  }

  std::vector<Floats> norm(bool emulated, DType dtype, bool residual);
  std::vector<Floats> gelu(bool emulated, DType dtype, bool tanh);
  std::vector<Floats> residual_sum(bool emulated, DType dtype);
  std::vector<Floats> scaled_weights(bool emulated, DType dtype);
};

std::vector<Floats> EmulatedRows::norm(bool emulated, DType dtype, bool with_residual) {
  const auto& c = GetParam();
  Array x = wide(tokens(2, 1, 1)), weight = wide(channels(2)), bias = wide(channels(3));
  Array y = result(dtype, count()), mean = result(DType::kFloat32, c.rows);
  Array rstd = result(DType::kFloat32, c.rows);
  auto forward = shaped<NormForwardArgs>(dtype);
  forward.x = x.data(), forward.weight = weight.data(), forward.y = y.data();
  forward.bias = c.bias ? bias.data() : nullptr;
  forward.mean = mean.data(), forward.rstd = rstd.data();
  Array grad(dtype, tokens(1, 0, 4), c.offset), residual = wide(tokens(1, 0, 5));
  Array grad_x = result(DType::kFloat32, count()), grad_weight = result(DType::kFloat32, c.width);
  Array grad_bias = result(DType::kFloat32, c.width);
  Array scratch = result(DType::kFloat32, sums_workspace(emulated, 2 * c.width));
  auto backward = shaped<NormBackwardArgs>(dtype);
  backward.x = x.data(), backward.mean = mean.data(), backward.rstd = rstd.data();
  backward.weight = weight.data(), backward.grad_y = grad.data();
  backward.grad_residual = with_residual ? residual.data() : nullptr;
  backward.grad_x = c.group > 0 && with_residual ? residual.data() : grad_x.data();
  backward.grad_weight = grad_weight.data(), backward.grad_bias = grad_bias.data();
  backward.workspace = scratch.data();
  if (emulated) {
    EXPECT_EQ(cuda::norm_forward(forward, nullptr), 0);
    EXPECT_EQ(cuda::norm_backward(backward, nullptr), 0);
  } else {
    kernels::norm_forward(forward, serial_for);
    kernels::norm_backward(backward, serial_for);
  }
  return {y.values(),      mean.values(),        rstd.values(),     residual.values(),
          grad_x.values(), grad_weight.values(), grad_bias.values()};
}

std::vector<Floats> EmulatedRows::gelu(bool emulated, DType dtype, bool tanh) {
  const auto& c = GetParam();
  Array h(dtype, tokens(3, 0, 1), c.offset), bias = wide(channels(2)), a = result(dtype, count());
  Array grad(dtype, tokens(1, 0, 3), c.offset), sums = result(DType::kFloat32, c.width);
  Array scratch = result(DType::kFloat32, sums_workspace(emulated, c.width));
  auto forward = shaped<GeluForwardArgs>(dtype);
  forward.h = h.data(), forward.bias = c.bias ? bias.data() : nullptr, forward.tanh = tanh;
  forward.a = a.data();
  auto backward = shaped<GeluBackwardArgs>(dtype);
  backward.h = h.data(), backward.bias = forward.bias, backward.tanh = tanh;
  backward.grad_a = grad.data(), backward.grad_h = grad.data(), backward.a = h.data();
  backward.grad_bias = c.bias ? sums.data() : nullptr, backward.workspace = scratch.data();
  if (emulated) {
    EXPECT_EQ(cuda::gelu_forward(forward, nullptr), 0);
    EXPECT_EQ(cuda::gelu_backward(backward, nullptr), 0);
  } else {
    kernels::gelu_forward(forward, serial_for);
    kernels::gelu_backward(backward, serial_for);
  }
  return {a.values(), grad.values(), h.values(), sums.values()};
}

std::vector<Floats> EmulatedRows::residual_sum(bool emulated, DType dtype) {
  const auto& c = GetParam();
  Array x = wide(tokens(1, 0, 1)), branch(dtype, tokens(1, 0, 2), c.offset);
  Array bias = wide(channels(3)), gamma = wide(channels(4)), keep = wide(of_rows(5));
  Array y = result(DType::kFloat32, count()), kept = result(dtype, count());
  Array sums = result(DType::kFloat32, c.width), only_sums = result(DType::kFloat32, c.width);
  Array scratch = result(DType::kFloat32, sums_workspace(emulated, c.width));
  auto add = shaped<ScaledAddArgs>(dtype);
  add.x = x.data(), add.branch = branch.data(), add.bias = c.bias ? bias.data() : nullptr;
  add.gamma = gamma.data(), add.keep = c.group > 0 ? keep.data() : nullptr;
  add.group = std::max<int64_t>(1, c.group), add.y = y.data();
  auto gradient = shaped<KeptGradientArgs>(dtype);
  gradient.grad_y = x.data(), gradient.keep = add.keep, gradient.group = add.group;
  gradient.kept = kept.data(), gradient.sums = sums.data(), gradient.workspace = scratch.data();
  auto as_it_is = gradient;
  as_it_is.kept = nullptr, as_it_is.keep = nullptr, as_it_is.sums = only_sums.data();
  if (emulated) {
    EXPECT_EQ(cuda::scaled_add(add, nullptr), 0);
    EXPECT_EQ(cuda::kept_gradient(gradient, nullptr), 0);
    EXPECT_EQ(cuda::kept_gradient(as_it_is, nullptr), 0);
  } else {
    kernels::scaled_add(add, serial_for);
    kernels::kept_gradient(gradient, serial_for);
    kernels::kept_gradient(as_it_is, serial_for);
  }
  return {y.values(), kept.values(), sums.values(), only_sums.values()};
}

std::vector<Floats> EmulatedRows::scaled_weights(bool emulated, DType dtype) {
  const auto& c = GetParam();
  Array weight = wide(tokens(1, 0, 1)), gamma = wide(of_rows(2)), scaled = result(dtype, count());
  Array product(dtype, tokens(1, 0, 3), c.offset), dots = result(DType::kFloat32, c.rows);
  auto scale = shaped<ScaleRowsArgs>(dtype);
  scale.weight = weight.data(), scale.gamma = gamma.data(), scale.scaled = scaled.data();
  auto gradient = shaped<GammaGradientArgs>(dtype);
  gradient.weight = weight.data(), gradient.gamma = gamma.data();
  gradient.product = product.data(), gradient.dots = dots.data();
  if (emulated) {
    EXPECT_EQ(cuda::scale_rows(scale, nullptr), 0);
    EXPECT_EQ(cuda::gamma_gradient(gradient, nullptr), 0);
  } else {
    kernels::scale_rows(scale, serial_for);
    kernels::gamma_gradient(gradient, serial_for);
  }
  return {scaled.values(), product.values(), dots.values()};
}

// Rounding of float32, and of one step of bfloat16 where a value lies between two.
template <class Run>
void expect_same(Run run) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    SCOPED_TRACE(dtype == DType::kFloat32 ? "float32" : "bfloat16");
    const double limit = dtype == DType::kFloat32 ? 3e-6 : 1.0 / 128;
    const std::vector<Floats> wanted = run(false, dtype), found = run(true, dtype);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      expect_close(found[i], wanted[i], limit, ("result " + std::to_string(i)).c_str(), 0.1);
    }
    const DescendingThreads descending;
    EXPECT_EQ(run(true, dtype), found);
  }
}

TEST_P(EmulatedRows, NormEqualsTheCpus) {
  for (const bool residual : {false, true}) {
    expect_same([&](bool emulated, DType dtype) { return norm(emulated, dtype, residual); });
  }
}
TEST_P(EmulatedRows, GeluEqualsTheCpus) {
  for (const bool tanh : {false, true}) {
    expect_same([&](bool emulated, DType dtype) { return gelu(emulated, dtype, tanh); });
  }
}
TEST_P(EmulatedRows, ResidualEqualsTheCpus) {
  expect_same([&](bool emulated, DType dtype) { return residual_sum(emulated, dtype); });
}
TEST_P(EmulatedRows, ScaledWeightsEqualTheCpus) {
  expect_same([&](bool emulated, DType dtype) { return scaled_weights(emulated, dtype); });
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedRows, ::testing::ValuesIn(kCases));

// Against float64; the targets among them at both ends, and rows that ask for nothing.
void check_softmax(DType dtype, int64_t rows, int64_t width, bool gradient) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << width << ", gradient " << gradient);
  Array logits(dtype, numbers(rows * width, 4, 3, 1)), losses(DType::kFloat32, rows, 0);
  const Floats given = logits.values();
  std::vector<int64_t> targets(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) targets[r] = r % 3 == 1 ? -1 : r * 7 % width;
  targets.back() = width - 1;
  const double scale = 0.125;
  ASSERT_EQ(cuda::softmax_gradient({rows, width, dtype, logits.data(), targets.data(),
                                    gradient ? &scale : nullptr, losses.data()},
                                   nullptr),
            0);
  Floats wanted(given.size()), wanted_losses;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += std::exp(double{given[r * width + i]});
    const bool asked = targets[r] >= 0;
    for (int64_t i = 0; i < width; ++i) {
      const double share = std::exp(double{given[r * width + i]}) / sum;
      wanted[r * width + i] =
          asked ? static_cast<float>(scale * (share - double(i == targets[r]))) : 0.0f;
    }
    wanted_losses.push_back(
        asked ? static_cast<float>(std::log(sum) - given[r * width + targets[r]]) : 0.0f);
  }
  expect_close(losses.values(), wanted_losses, 3e-6, "losses", 1);
  const double limit = dtype == DType::kFloat32 ? 3e-6 : 1.0 / 256;
  expect_close(logits.values(), gradient ? wanted : given, gradient ? limit : 0, "logits", scale);
}

// What a definition by gathering would stop at, or pass on.
TEST(EmulatedSoftmax, SaysWhereATargetOrALogitIsNone) {
  constexpr int64_t kRows = 4, kWidth = 40;
  Floats values = numbers(kRows * kWidth, 1, 0, 1);
  values[kWidth + 3] = std::numeric_limits<float>::quiet_NaN();
  values[2 * kWidth + 3] = -std::numeric_limits<float>::infinity();
  Array logits(DType::kFloat32, values), losses(DType::kFloat32, kRows, 0);
  const int64_t targets[kRows] = {kWidth, 0, 0, 0};
  const double scale = 1;
  ASSERT_EQ(
      cuda::softmax_gradient(
          {kRows, kWidth, DType::kFloat32, logits.data(), targets, &scale, losses.data()}, nullptr),
      0);
  const Floats found = losses.values(), gradient = logits.values();
  EXPECT_TRUE(std::isnan(found[0]) && std::isnan(found[1]));
  EXPECT_TRUE(std::isnan(gradient[0]) && std::isnan(gradient[kWidth]));
  EXPECT_TRUE(std::isfinite(found[2]) && std::isfinite(found[3]));
  EXPECT_EQ(gradient[2 * kWidth + 3], 0);
}

TEST(EmulatedSoftmax, IsThatOfFloat64) {
  for (const bool descending : {false, true}) {
    emulator::descending = descending;
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const auto& [rows, width] :
           {std::pair<int64_t, int64_t>{1, 2}, {4, 7}, {5, 64}, {3, 5000}, {2, 4099}}) {
        check_softmax(dtype, rows, width, true);
        check_softmax(dtype, rows, width, false);
      }
    }
  }
  emulator::descending = false;
}

// As many rows as make 2^32 blocks, which 32 bits would take for none.
template <class Args>
Args of_rows(int64_t rows) {
  Args args;
  args.rows = rows, args.width = 1;
  return args;
}

TEST(EmulatedRows, RefuseMoreBlocksThanAGridCounts) {
  constexpr int64_t kRows = int64_t{1} << 35, kColumns = int64_t{1} << 38;
  EXPECT_NE(cuda::norm_forward(of_rows<NormForwardArgs>(kRows), nullptr), 0);
  EXPECT_NE(cuda::gamma_gradient(of_rows<GammaGradientArgs>(kRows), nullptr), 0);
  EXPECT_NE(cuda::norm_backward(of_rows<NormBackwardArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::gelu_forward(of_rows<GeluForwardArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::gelu_backward(of_rows<GeluBackwardArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::scaled_add(of_rows<ScaledAddArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::kept_gradient(of_rows<KeptGradientArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::scale_rows(of_rows<ScaleRowsArgs>(kColumns), nullptr), 0);
  EXPECT_NE(cuda::softmax_gradient(of_rows<SoftmaxGradientArgs>(int64_t{1} << 32), nullptr), 0);
  EXPECT_EQ(cuda::norm_forward(of_rows<NormForwardArgs>(0), nullptr), 0);  // said once
}

}  // namespace
}  // namespace tost::kernels::cuda
