// Computes blocks of 6 rows and 16 columns: 12 of 16 registers hold their sums, so that two vectors
// of the weight and six pairs of the rows serve 192 products.
#include "tost/kernels/products/wide_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/pair_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2

namespace hn = hwy::HWY_NAMESPACE;

template <int64_t kRows>
HWY_INLINE void multiply(const int16_t* x, int64_t x_stride, const int16_t* weight, int64_t inputs,
                         int32_t* sums) {
  const hn::ScalableTag<int16_t> d16;
  const hn::ScalableTag<int32_t> d32;
  constexpr int64_t kHalf = kPairColumns / 2;
  hn::Vec<decltype(d32)> first[kRows], second[kRows];
  for (int64_t r = 0; r < kRows; ++r) first[r] = second[r] = hn::Zero(d32);
  for (int64_t i = 0; i < inputs; i += 2, weight += 2 * kPairColumns) {
    const auto a = hn::LoadU(d16, weight), b = hn::LoadU(d16, weight + kPairColumns);
#pragma GCC unroll 6
    for (int64_t r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * x_stride + i, sizeof pair);
      const auto both = hn::BitCast(d16, hn::Set(d32, pair));
      auto unused = hn::Zero(d32);  // AVX2 adds all products to the sum before
      first[r] = hn::ReorderWidenMulAccumulate(d32, both, a, first[r], unused);
      second[r] = hn::ReorderWidenMulAccumulate(d32, both, b, second[r], unused);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    hn::StoreU(first[r], d32, sums + r * kPairColumns);
    hn::StoreU(second[r], d32, sums + r * kPairColumns + kHalf);
  }
}

template <int64_t kRows>
HWY_INLINE void block(const PairProductArgs& a, int64_t row) {
  multiply<kRows>(a.x + row * a.x_stride, a.x_stride, a.weight, a.inputs,
                  a.sums + row * kPairColumns);
}

inline void product(const PairProductArgs& a) {
  constexpr int64_t kRows = 6;
  if (a.rows < kRows) {
    for (int64_t row = 0; row < a.rows; ++row) block<1>(a, row);
    return;
  }
  // Shifts the last block over the previous one, so that every block is whole.
  for (int64_t row = 0; row < a.rows; row += kRows) {
    block<kRows>(a, std::min(row, a.rows - kRows));
  }
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"

namespace tost::kernels {

#if HWY_TARGETS & HWY_AVX2

bool has_pair_product() {
  return current_isa_target() == HWY_AVX2;
}

void pair_product(const PairProductArgs& args) {
  N_AVX2::product(args);
}

#else

bool has_pair_product() {
  return false;
}
void pair_product(const PairProductArgs&) {}

#endif

}  // namespace tost::kernels
#endif  // HWY_ONCE
