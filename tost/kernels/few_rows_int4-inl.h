// Weights of four bits against inputs of sixteen: whole numbers within a group, float32 over
// groups. A group's 32 inputs are four planes of eight, and lane l of a group's eight 16-bit words
// holds the weights of plane 0 to 3 at l, so one load of words meets four loads of inputs.
#if defined(TOST_KERNELS_FEW_ROWS_INT4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#undef TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#else
#define TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#endif

#include <algorithm>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// One row of inputs: planes [4][8 groups], and for each of a group's four sums its factor, and
// -8 times the group's inputs in the first of them.
struct Int4Row {
  int16_t* planes;
  float* factors;
  int32_t* offsets;
};
HWY_INLINE Int4Row int4_row(const void* prepared, int64_t groups, int64_t row) {
  auto* base = static_cast<char*>(const_cast<void*>(prepared)) + row * groups * 96;
  return {reinterpret_cast<int16_t*>(base), reinterpret_cast<float*>(base + groups * 64),
          reinterpret_cast<int32_t*>(base + groups * 80)};
}

HWY_INLINE float to_float(Bf16 v) {
  const uint32_t bits = uint32_t{v.bits} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The 32 inputs at `x` become group g of `row`.
HWY_INLINE void prepare_int4_group(const float* x, int64_t groups, int64_t g, const Int4Row& row) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), poison = hn::Zero(d);
  for (int64_t j = 0; j < kInt4Group; j += lanes) {
    const auto v = hn::LoadU(d, x + j);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);  // NaN as soon as one value is not finite
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float bad = hn::GetLane(hn::SumOfLanes(d, poison));
  const bool usable = bad == 0 && top > 1e-30f;
  const auto inverse = hn::Set(d, usable ? 32767 / top : 0.0f);
  auto sum = hn::Zero(di);
  for (int64_t j = 0; j < kInt4Group; j += lanes) {
    const auto v = usable ? hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), inverse)) : hn::Zero(di);
    sum = hn::Add(sum, v);
    hn::StoreU(hn::DemoteTo(d16, v), d16, row.planes + (j / 8 * groups + g) * 8 + j % 8);
  }
  const float factor = bad == 0 ? top * (1.0f / 32767) : bad;
  for (int64_t i = 0; i < 4; ++i) {
    row.factors[4 * g + i] = factor;
    row.offsets[4 * g + i] = 0;
  }
  row.offsets[4 * g] = -8 * hn::GetLane(hn::SumOfLanes(di, sum));
}

inline void prepare_int4(const float* x, int64_t rows, int64_t inputs, void* prepared) {
  const int64_t groups = int4_groups(inputs);
  for (int64_t r = 0; r < rows; ++r, x += inputs) {
    const auto row = int4_row(prepared, groups, r);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t left = std::clamp<int64_t>(inputs - g * kInt4Group, 0, kInt4Group);
      if (left == kInt4Group) {
        prepare_int4_group(x + g * kInt4Group, groups, g, row);
        continue;
      }
      float some[kInt4Group] = {};
      for (int64_t j = 0; j < left; ++j) some[j] = x[g * kInt4Group + j];
      prepare_int4_group(some, groups, g, row);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

// sums[r] = x[r] · w.
template <int kRows>
HWY_INLINE void int4_products(const void* x, int64_t groups, const uint8_t* w, const Bf16* scales,
                              float (&sums)[kRows]) {
  for (int r = 0; r < kRows; ++r) {
    const auto row = int4_row(x, groups, r);
    sums[r] = 0;
    for (int64_t g = 0; g < groups; ++g) {
      int32_t sum = row.offsets[4 * g];
      for (int64_t i = 0; i < kInt4Group; ++i) {
        const auto at = int4_position(i);
        const int32_t value = (w[g * 16 + at.byte] >> at.shift) & 15;
        sum += value * row.planes[(i / 8 * groups + g) * 8 + i % 8];
      }
      sums[r] += static_cast<float>(sum) * (to_float(scales[g]) * row.factors[4 * g]);
    }
  }
}

#else

// sums[r] = x[r] · w.
template <int kRows>
HWY_INLINE void int4_products(const void* x, int64_t groups, const uint8_t* w, const Bf16* scales,
                              float (&sums)[kRows]) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<int16_t, decltype(d)> d16;
  const hn::Repartition<uint16_t, decltype(d)> du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = lanes / 4;  // groups a vector
  const auto mask = hn::Set(du16, 15);
  // Which scale each of a vector's sums has, where `lanes` scales serve four vectors.
  const auto quarter = hn::ShiftRight<2>(hn::Iota(di, 0));
  Int4Row row[kRows];
  hn::Vec<decltype(d)> total[kRows];
  for (int r = 0; r < kRows; ++r) {
    row[r] = int4_row(x, groups, r);
    total[r] = hn::Zero(d);
  }
  for (int64_t first = 0; first < groups; first += lanes) {
    const int64_t left = std::min(lanes, groups - first);
    const auto some = left == lanes ? load(d, scales + first)
                                    : load_first(d, scales + first, static_cast<size_t>(left));
    auto which = quarter;
    for (int64_t g = first; g < first + left; g += step) {
      const auto scale = hn::TableLookupLanes(some, hn::IndicesFromVec(d, which));
      which = hn::Add(which, hn::Set(di, static_cast<int32_t>(step)));
      const auto words = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(w + g * 16));
      const hn::Vec<decltype(d16)> parts[4] = {
          hn::BitCast(d16, hn::And(words, mask)),
          hn::BitCast(d16, hn::And(hn::ShiftRight<4>(words), mask)),
          hn::BitCast(d16, hn::And(hn::ShiftRight<8>(words), mask)),
          hn::BitCast(d16, hn::ShiftRight<12>(words))};
      for (int r = 0; r < kRows; ++r) {
        auto even = hn::Zero(di), odd = hn::Zero(di);
        for (int64_t k = 0; k < 4; ++k) {
          const auto inputs = hn::LoadU(d16, row[r].planes + (k * groups + g) * 8);
          even = hn::ReorderWidenMulAccumulate(di, parts[k], inputs, even, odd);
        }
        const auto sum =
            hn::Add(hn::RearrangeToOddPlusEven(even, odd), hn::LoadU(di, row[r].offsets + 4 * g));
        const auto factor = hn::Mul(scale, hn::LoadU(d, row[r].factors + 4 * g));
        total[r] = hn::MulAdd(hn::ConvertTo(d, sum), factor, total[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = sum_lanes(d, total[r]);
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
