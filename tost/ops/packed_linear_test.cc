#include "tost/engine/packed_linear.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/engine/quantized_weight.h"
#include "tost/kernels/isa.h"
#include "tost/ops/arrays.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

PackedLinear packed(const Tensor& weight, const Tensor& bias, Packing packing) {
  return {array_of(weight), array_of(bias), packing};
}

constexpr Packing kPackings[] = {Packing::kFloat32, Packing::kBfloat16, Packing::kInt8};

// Rows as a packing wants them, and the float64 values they stand for.
struct Rows {
  Rows(const Tensor& x, Packing packing) : values(x) {
    rows.rows = x.size(0);
    rows.stride = x.size(1) + 8;
    const int64_t n = rows.rows, width = x.size(1);
    const auto type = packing == Packing::kFloat32    ? torch::kFloat
                      : packing == Packing::kBfloat16 ? torch::kBFloat16
                                                      : torch::kByte;
    stored = torch::full({n, rows.stride}, 100, type);
    rows.data = stored.const_data_ptr();
    if (packing != Packing::kInt8) {
      stored.narrow(1, 0, width).copy_(x);
      values = stored.narrow(1, 0, width);
      return;
    }
    scale = torch::empty({n});
    zero = torch::empty({n}, torch::kInt);
    kernels::quantize_rows({n, width, x.const_data_ptr(), width, kernels::DType::kFloat32,
                            stored.mutable_data_ptr<uint8_t>(), rows.stride,
                            scale.mutable_data_ptr<float>(), zero.mutable_data_ptr<int32_t>()});
    rows.scale = scale.const_data_ptr<float>();
    rows.zero = zero.const_data_ptr<int32_t>();
    values = (stored.narrow(1, 0, width).to(torch::kDouble) - zero.unsqueeze(1)) *
             scale.to(torch::kDouble).unsqueeze(1);
  }

  PackedRows rows;
  Tensor values, stored, scale, zero;
};

// The weight as the packing rounds it, in float64.
Tensor rounded(const Tensor& weight, Packing packing) {
  if (packing == Packing::kFloat32) return weight.to(torch::kDouble);
  if (packing == Packing::kBfloat16) return weight.to(torch::kBFloat16).to(torch::kDouble);
  return tensor_of(dequantize(quantize_int8(array_of(weight)))).to(torch::kDouble);
}

Tensor run(const PackedLinear& map, const PackedRows& x, int64_t panels_at_once = 1 << 20) {
  auto y = torch::full({x.rows, map.outputs()}, 7.0f);
  auto scratch = torch::empty({map.scratch_bytes(x.rows) + 1}, torch::kByte);
  const PackedResult result{.data = y.mutable_data_ptr(), .stride = map.outputs()};
  for (int64_t p = 0; p < map.panels(); p += panels_at_once) {
    map.run(x, result, scratch.mutable_data_ptr(), p, std::min(map.panels(), p + panels_at_once));
  }
  return y;
}

double relative_error(const Tensor& found, const Tensor& exact) {
  if (found.numel() == 0) return 0;
  return ((found.to(torch::kDouble) - exact).abs().max() / exact.abs().max().clamp_min(1e-300))
      .item<double>();
}

// As the best instruction set does it, which may have tile units, and as an older one does.
class PackedLinearTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto sets = kernels::supported_isas();
    if (GetParam()) kernels::force_isa(sets[std::min<size_t>(1, sets.size() - 1)]);
  }
  void TearDown() override { kernels::force_isa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Sets, PackedLinearTest, ::testing::Bool(),
                         [](const auto& chosen) { return chosen.param ? "older" : "best"; });

TEST_P(PackedLinearTest, AgreesWithLinearOnTheRoundedNumbers) {
  torch::manual_seed(1);
  // Widths that groups do not divide go through float32.
  for (const int64_t inputs : {1, 3, 32, 34, 64, 200}) {
    for (const int64_t outputs : {1, 16, 47, 96, 150, 192}) {
      for (const Packing packing : kPackings) {
        const auto weight = torch::randn({outputs, inputs});
        const auto bias = outputs == 47 ? Tensor() : torch::randn({outputs});
        const PackedLinear map = packed(weight, bias, packing);
        for (const int64_t rows : {0, 1, 5, 33}) {
          const Rows x(torch::randn({rows, inputs}), packing);
          auto exact = x.values.to(torch::kDouble).matmul(rounded(weight, packing).t());
          if (bias.defined()) exact = exact + bias;
          EXPECT_LE(relative_error(run(map, x.rows), exact), 2e-6)
              << inputs << " to " << outputs << ", " << rows << " rows, packing "
              << static_cast<int>(packing);
        }
      }
    }
  }
}

TEST_P(PackedLinearTest, ManyRowsAndPanelsInPartsGiveTheSameBits) {
  torch::manual_seed(2);
  for (const Packing packing : kPackings) {
    const auto weight = torch::randn({250, 64});
    const PackedLinear map = packed(weight, torch::randn({250}), packing);
    ASSERT_GE(map.panels(), 3);
    const Rows x(torch::randn({500, 64}), packing);
    const auto whole = run(map, x.rows);
    EXPECT_TRUE(torch::equal(whole, run(map, x.rows)));
    EXPECT_TRUE(torch::equal(whole, run(map, x.rows, 1)));
  }
}

TEST_P(PackedLinearTest, AppliesWhatFollows) {
  torch::manual_seed(3);
  for (const Packing packing : kPackings) {
    const auto weight = torch::randn({70, 64}) / 8, bias = torch::randn({70});
    const PackedLinear map = packed(weight, bias, packing);
    const Rows x(torch::randn({9, 64}), packing);
    const auto exact = x.values.to(torch::kDouble).matmul(rounded(weight, packing).t()) + bias;
    auto scratch = torch::empty({map.scratch_bytes(9)}, torch::kByte);
    auto half = torch::empty({9, 80}, torch::kBFloat16);
    map.run(x.rows,
            {.data = half.mutable_data_ptr(),
             .stride = 80,
             .dtype = kernels::DType::kBfloat16,
             .activation = kernels::Activation::kGelu},
            scratch.mutable_data_ptr());
    EXPECT_LE(relative_error(half.narrow(1, 0, 70), torch::gelu(exact)), 4e-3);
    const auto gamma = torch::randn({70}), before = torch::randn({9, 70});
    auto stream = before.clone();
    map.run(x.rows,
            {.data = stream.mutable_data_ptr(),
             .stride = 70,
             .add = true,
             .gamma = gamma.const_data_ptr<float>()},
            scratch.mutable_data_ptr());
    EXPECT_LE(relative_error(stream, before + gamma * exact), 2e-6);
  }
}

TEST_P(PackedLinearTest, AccumulatesPartsOfTheInputs) {
  torch::manual_seed(6);
  constexpr int64_t kPart = 2 * PackedLinear::kInputStep;
  for (const Packing packing : kPackings) {
    for (const int64_t inputs : {64, 320, 259}) {
      const auto weight = torch::randn({130, inputs});
      const PackedLinear map = packed(weight, torch::randn({130}), packing);
      const auto x = torch::randn({41, inputs}), before = torch::randn({41, 140});
      auto sums = before.clone();
      auto scratch = torch::empty({map.scratch_bytes(41)}, torch::kByte);
      auto exact = before.to(torch::kDouble);
      for (int64_t first = 0; first < inputs; first += kPart) {
        const int64_t count = std::min(kPart, inputs - first);
        const Rows part(x.narrow(1, first, count).contiguous(), packing);
        map.accumulate(part.rows, sums.mutable_data_ptr<float>(), 140, first, count,
                       scratch.mutable_data_ptr());
        exact.narrow(1, 0, 130) +=
            part.values.to(torch::kDouble)
                .matmul(rounded(weight, packing).narrow(1, first, count).t());
      }
      EXPECT_LE(relative_error(sums, exact), 2e-6) << inputs;
      EXPECT_TRUE(torch::equal(sums.narrow(1, 130, 10), before.narrow(1, 130, 10)));
    }
  }
}

// The weights wanted next change nothing.
TEST_P(PackedLinearTest, AccumulatesManyInputsInOneCall) {
  torch::manual_seed(7);
  for (const Packing packing : kPackings) {
    for (const int64_t inputs : {1100, 1664}) {
      const auto weight = torch::randn({70, inputs});
      const PackedLinear map = packed(weight, Tensor(), packing);
      const Rows x(torch::randn({35, inputs}), packing);
      const auto before = torch::randn({35, 70});
      auto scratch = torch::empty({map.scratch_bytes(35)}, torch::kByte);
      const auto accumulated = [&](const kernels::FetchAhead& next) {
        auto sums = before.clone();
        map.accumulate(x.rows, sums.mutable_data_ptr<float>(), 70, 0, inputs,
                       scratch.mutable_data_ptr(), next);
        return sums;
      };
      const auto sums = accumulated({});
      const auto exact = before + x.values.to(torch::kDouble).matmul(rounded(weight, packing).t());
      EXPECT_LE(relative_error(sums, exact), 2e-6) << inputs;
      EXPECT_TRUE(torch::equal(sums, accumulated(map.ahead_of_inputs(64, 128))));
    }
  }
}

TEST(PackedLinear, WeightsAheadAreThoseItReads) {
  const PackedLinear map = packed(torch::randn({100, 320}), Tensor(), Packing::kBfloat16);
  const auto all = map.ahead();
  if (all.data == nullptr) GTEST_SKIP() << "no product here fetches weights";
  EXPECT_EQ(all.bytes * all.pieces, map.bytes());
  const auto last = map.ahead(map.panels() - 1, map.panels());
  EXPECT_EQ(last.data + last.bytes, all.data + all.bytes);
  const auto inputs = map.ahead_of_inputs(128, 192);
  EXPECT_EQ(inputs.bytes * inputs.pieces * 320, map.bytes() * 192);
  EXPECT_EQ(inputs.data + (inputs.pieces - 1) * inputs.stride + inputs.bytes, all.data + all.bytes);
}

// The error of float32 GELU as a multiple of torch's own.
TEST(PackedLinear, GeluIsAsExactAsTorchs) {
  const auto x = torch::linspace(-8, 8, 200001);
  for (const char* form : {"none", "tanh"}) {
    auto y = torch::empty_like(x);
    kernels::FinishRowsArgs a;
    a.rows = 1;
    a.columns = a.sums_stride = x.numel();
    a.sums = x.const_data_ptr();
    a.activation = form[0] == 'n' ? kernels::Activation::kGelu : kernels::Activation::kGeluTanh;
    a.out = y.mutable_data_ptr();
    kernels::finish_rows(a);
    const auto exact = torch::gelu(x.to(torch::kDouble), form);
    const auto error = [&](const Tensor& found) {
      return (found.to(torch::kDouble) - exact).abs().max().item<double>();
    };
    EXPECT_LE(error(y), 2 * error(torch::gelu(x, form))) << form;
  }
}

TEST_P(PackedLinearTest, RoundingRoundedWeightsAgainChangesNothing) {
  torch::manual_seed(4);
  const auto weight = torch::randn({33, 64});
  const auto once = rounded(weight, Packing::kInt8).to(torch::kFloat);
  const Rows x(torch::randn({4, 64}), Packing::kInt8);
  EXPECT_LE(relative_error(run(packed(once, {}, Packing::kInt8), x.rows),
                           run(packed(weight, {}, Packing::kInt8), x.rows)),
            1e-6);
}

// 255 x 127 for each of so many inputs is beyond int32.
TEST_P(PackedLinearTest, ManyInputsInInt8DoNotWrapAround) {
  const int64_t inputs = 66400;
  const Tensor x = torch::ones({2, inputs}), weight = torch::ones({3, inputs});
  const Rows rows(x, Packing::kInt8);
  const Tensor y = run(packed(weight, {}, Packing::kInt8), rows.rows);
  EXPECT_TRUE(torch::allclose(y, torch::full({2, 3}, double(inputs)), 1e-3));
}

TEST(PackedLinear, RowsOfNanGiveNanAndNoOthers) {
  for (const Packing packing : kPackings) {
    auto values = torch::ones({3, 64});
    values[1][5] = NAN;
    const Rows x(values, packing);
    const auto y = run(packed(torch::ones({20, 64}), {}, packing), x.rows);
    EXPECT_TRUE(y[1].isnan().all().item<bool>());
    EXPECT_FALSE(y[0].isnan().any().item<bool>());
    EXPECT_FALSE(y[2].isnan().any().item<bool>());
  }
}

TEST(PackedLinear, RefusesWhatItCannotPack) {
  EXPECT_THROW(packed(torch::ones({3}), {}, Packing::kFloat32), Error);
  EXPECT_THROW(packed(torch::ones({3, 0}), {}, Packing::kFloat32), Error);
  EXPECT_THROW(packed(torch::ones({3, 2}, torch::kInt), {}, Packing::kFloat32), Error);
  EXPECT_THROW(packed(torch::ones({3, 2}), torch::ones({2}), Packing::kFloat32), Error);
  EXPECT_THROW(packed(torch::full({3, 4}, NAN), {}, Packing::kInt8), Error);
}

bool by_pairs() {
  return std::string_view(product_method(Packing::kInt8)) == "pairs of 16-bit numbers";
}

// Of rows times a map, and of the same as two parts of the inputs; widths that whole products take
// and others.
bool products_agree(Packing packing) {
  bool right = true;
  for (const int64_t outputs : {70, 96}) {
    const auto weight = torch::randn({outputs, 128});
    const PackedLinear map = packed(weight, {}, packing);
    if (packing == Packing::kInt8 && outputs == 96 && by_pairs()) {
      right = right && map.bytes() == 2 * weight.numel();
    }
    for (const int64_t rows : {1, 9, 40}) {
      const Rows x(torch::randn({rows, 128}), packing);
      const auto exact = x.values.to(torch::kDouble).matmul(rounded(weight, packing).t());
      right = right && relative_error(run(map, x.rows), exact) < 2e-6;
      auto sums = torch::ones({rows, outputs});
      auto scratch = torch::empty({map.scratch_bytes(rows) + 1}, torch::kByte);
      for (const int64_t first : {0, 64}) {
        PackedRows part = x.rows;
        part.data = static_cast<const char*>(part.data) + first * x.stored.element_size();
        map.accumulate(part, sums.mutable_data_ptr<float>(), outputs, first, 64,
                       scratch.mutable_data_ptr());
      }
      right = right && relative_error(sums, exact + 1) < 2e-6;
    }
  }
  return right;
}

TEST(PackedLinear, EverySetComputesTheSame) {
  torch::manual_seed(5);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const Packing packing : kPackings) EXPECT_TRUE(products_agree(packing)) << isa;
    EXPECT_EQ(by_pairs(), isa == "avx2") << isa;
  }
  kernels::force_isa("auto");
}

}  // namespace
}  // namespace tost
