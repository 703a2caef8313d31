#include "tost/engine/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"

namespace tost {
namespace {

Array counted(Array::Shape shape) {
  Array array = Array::empty(std::move(shape));
  std::iota(array.mutable_data(), array.mutable_data() + array.numel(), 0.0f);
  return array;
}

TEST(Array, ScalarsHaveRoomForTheirBytes) {
  auto& blocks = BlockCache::instance();
  const int64_t before = blocks.stats().in_use_bytes;
  const Array scalar = Array::empty({}, TorchDtype::kFloat64);
  EXPECT_EQ(blocks.stats().in_use_bytes - before, 8);
  EXPECT_EQ(scalar.clone().bytes(), 8);
}

TEST(Array, CopiesShareAndClonesDoNot) {
  Array a = counted({2, 3});
  EXPECT_TRUE(a.unique());
  const Array b = a;
  EXPECT_FALSE(a.unique());
  const Array c = a.clone();
  a.mutable_data()[0] = 7;
  EXPECT_EQ(b.data()[0], 7);
  EXPECT_EQ(c.data()[0], 0);
  EXPECT_EQ(c.shape(), a.shape());
  EXPECT_EQ(a.bytes(), 24);
  EXPECT_EQ(uintptr_t(a.data()) % 64, 0u);
}

TEST(Array, StridesAreResolvedByACopy) {
  const Array a = counted({4, 5});
  const Array part({2, 3}, TorchDtype::kFloat32, {a.owner(), a.owner().get()}, {10, 2}, 80);
  const Array whole = part.contiguous();
  EXPECT_EQ(std::vector<float>(whole.data(), whole.data() + 6),
            (std::vector<float>{0, 2, 4, 10, 12, 14}));
  EXPECT_EQ(part.held_bytes(), 80);
  EXPECT_TRUE(whole.strides().empty());
  const Array usual({4, 1, 5}, TorchDtype::kFloat32, a.owner(), {5, 99, 1});
  EXPECT_TRUE(usual.strides().empty());
}

TEST(Array, HoldsNothing) {
  EXPECT_FALSE(Array().defined());
  EXPECT_EQ(Array().bytes(), 0);
  const Array none = Array::zeros({0, 3});
  EXPECT_TRUE(none.defined());
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.clone().bytes(), 0);
}

TEST(Array, BecomesFloat) {
  const auto halves = Array::of<uint16_t>({0x3C00, 0xC000, 0x0001, 0x7C00}, TorchDtype::kFloat16);
  const Array wide = halves.as_float();
  EXPECT_EQ(wide.data()[0], 1.0f);
  EXPECT_EQ(wide.data()[1], -2.0f);
  EXPECT_EQ(wide.data()[2], 0x1p-24f);
  EXPECT_TRUE(std::isinf(wide.data()[3]));
  const auto brain = Array::of<uint16_t>({0x3F80, 0xC040}, TorchDtype::kBFloat16).as_float();
  EXPECT_EQ(brain.data()[1], -3.0f);
  EXPECT_THROW(Array::zeros({1}, TorchDtype::kInt8).as_float(), Error);
  EXPECT_EQ(shown(halves), "float16 [4]");
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0f), 0x3F80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808000u)), 0x3F80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F818000u)), 0x3F82);
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(NAN))));
  EXPECT_TRUE(std::isinf(from_bfloat16(to_bfloat16(3.4e38f))));
}

}  // namespace
}  // namespace tost
