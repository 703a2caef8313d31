#include "tost/ops/quantized_weight.h"

#include <gtest/gtest.h>

#include <limits>

#include "tost/base/error.h"
#include "tost/kernels/products/few_rows.h"
#include "tost/torch.h"

namespace tost {
namespace {

// Rows of very different size, zeros among them.
torch::Tensor uneven(int64_t out, int64_t in) {
  auto w = torch::randn({out, in}) * torch::logspace(-12, 9, out).unsqueeze(1);
  w[out / 2].zero_();
  return w;
}

TEST(QuantizedWeight, RoundsToTheNearestValueOfItsScale) {
  torch::manual_seed(3);
  for (const int64_t in : {1, 31, 32, 33, 97, 256}) {
    const auto w = uneven(23, in);
    const auto eight = quantize_int8(w);
    const auto bound8 = w.abs().amax(1, true) / 127 * 0.502;
    EXPECT_TRUE(((dequantize(eight) - w).abs() <= bound8).all().item<bool>()) << in;
    EXPECT_LE(eight.values.abs().max().item<int64_t>(), 127);
    const auto four = dequantize(quantize_int4(w));
    for (int64_t first = 0; first < in; first += 32) {
      const int64_t count = std::min<int64_t>(32, in - first);
      const auto group = w.narrow(1, first, count);
      const auto bound4 = group.abs().amax(1, true) / 7 * 0.53;
      EXPECT_TRUE(((four.narrow(1, first, count) - group).abs() <= bound4).all().item<bool>());
    }
  }
}

TEST(QuantizedWeight, RoundingAgainKeepsEveryBit) {
  torch::manual_seed(4);
  const auto w = uneven(2000, 65);
  const auto eight = quantize_int8(w), again8 = quantize_int8(dequantize(eight));
  EXPECT_TRUE(torch::equal(eight.values, again8.values));
  EXPECT_TRUE(torch::equal(eight.scales, again8.scales));
  const auto four = quantize_int4(w), again4 = quantize_int4(dequantize(four));
  EXPECT_TRUE(torch::equal(four.values, again4.values));
  EXPECT_TRUE(torch::equal(four.scales, again4.scales));
}

TEST(QuantizedWeight, RowsOfFourBitsHoldTheSameValues) {
  torch::manual_seed(5);
  for (const int64_t in : {1, 32, 100, 768}) {
    const auto plain = quantize_int4(torch::randn({3, in}));
    const auto rows = step_rows(plain);
    ASSERT_EQ(rows.values.size(1), kernels::int4_row_bytes(in));
    const auto wanted = dequantize(plain);
    for (int64_t o = 0; o < 3; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        const auto at = kernels::int4_position(i);
        const int value = ((rows.values[o][at.byte].item<int>() >> at.shift) & 15) - 8;
        const float scale = rows.scales[o][i / 32].item<float>();
        ASSERT_EQ(float(value) * scale, wanted[o][i].item<float>()) << in << " " << o << " " << i;
      }
    }
  }
}

TEST(QuantizedWeight, RefusesWhatCannotBeRounded) {
  for (const float value : {float(NAN), std::numeric_limits<float>::infinity()}) {
    auto w = torch::randn({4, 40});
    w[2][35] = value;
    EXPECT_THROW(quantize_int8(w), Error);
    EXPECT_THROW(quantize_int4(w), Error);
  }
  EXPECT_THROW(quantize_int8(torch::randn({4})), Error);
  EXPECT_THROW(quantize_int4(torch::ones({4, 4}, torch::kLong)), Error);
}

}  // namespace
}  // namespace tost
