// Weights of four bits against inputs of sixteen: integers within a group, float32 over
// groups. A group's 32 inputs are four planes of eight, and lane l of a group's eight 16-bit words
// holds the weights of plane 0 to 3 at l, so one load of words meets four loads of inputs.
#if defined(TOST_KERNELS_FEW_ROWS_INT4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#undef TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#else
#define TOST_KERNELS_FEW_ROWS_INT4_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Bytes that weights are asked for ahead: of float32 and bfloat16, where both nearer and further is
// slower on the cores with AMX it was measured on, and of fewer bits, where nearer is.
constexpr int64_t kWideAhead = 2048, kNarrowAhead = 4096;

// Asks for the `bytes` bytes that a stream read front to back reaches `ahead` bytes after `from`:
// processors' own prefetchers stop at every page of 4 KiB. May point past the end of the stream.
HWY_INLINE void fetch_ahead(const void* from, int64_t bytes, int64_t ahead) {
  for (int64_t b = 0; b < bytes; b += 64) {
    hwy::Prefetch(static_cast<const char*>(from) + ahead + b);
  }
}

// One row of inputs as integers: planes [4][8 groups], each group's sum (with a vector of zeros
// after the last), and the factor of them all.
struct Int4Row {
  int16_t* planes;
  float* sums;
  float* factor;
};
HWY_INLINE Int4Row int4_row(const void* prepared, int64_t groups, int64_t row) {
  auto* base = static_cast<char*>(const_cast<void*>(prepared)) + row * int4_input_stride(groups);
  auto* sums = reinterpret_cast<float*>(base + groups * 64);
  return {reinterpret_cast<int16_t*>(base), sums, sums + groups + 16};
}

HWY_INLINE float to_float(Bf16 v) {
  const uint32_t bits = uint32_t{v.bits} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The largest size of `count` values; NaN where one is not finite.
inline float largest_value(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), poison = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  }
  float top = hn::GetLane(hn::MaxOfLanes(d, largest)), bad = sum_lanes(d, poison);
  for (; i < count; ++i) {
    top = std::max(top, std::abs(x[i]));
    bad += x[i] * 0;
  }
  return top + bad;
}

// The 32 inputs at `x` times `inverse` become group g of `row`.
HWY_INLINE void prepare_int4_group(const float* x, float inverse, int64_t groups, int64_t g,
                                   const Int4Row& row) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(di);
  for (int64_t j = 0; j < kInt4Group; j += lanes) {
    const auto v = hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, inverse)));
    sum = hn::Add(sum, v);
    hn::StoreU(hn::DemoteTo(d16, v), d16, row.planes + (j / 8 * groups + g) * 8 + j % 8);
  }
  row.sums[g] = static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
}

inline void prepare_int4(const float* x, int64_t rows, int64_t inputs, void* prepared) {
  const int64_t groups = int4_groups(inputs), whole = inputs / kInt4Group;
  for (int64_t r = 0; r < rows; ++r, x += inputs) {
    const auto row = int4_row(prepared, groups, r);
    const float top = largest_value(x, inputs), inverse = top > 1e-30f ? 32767 / top : 0;
    *row.factor = top * (1.0f / 32767);
    for (int64_t g = 0; g < whole; ++g) {
      prepare_int4_group(x + g * kInt4Group, inverse, groups, g, row);
    }
    for (int64_t g = whole; g < groups; ++g) {
      float some[kInt4Group] = {};
      for (int64_t j = g * kInt4Group; j < inputs; ++j) some[j % kInt4Group] = x[j];
      prepare_int4_group(some, inverse, groups, g, row);
    }
    std::fill_n(row.sums + groups, 16, 0.0f);
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
      int32_t sum = 0;
      for (int64_t i = 0; i < kInt4Group; ++i) {
        const auto at = int4_position(i);
        const int32_t value = (w[g * 16 + at.byte] >> at.shift) & 15;
        sum += value * row.planes[(i / 8 * groups + g) * 8 + i % 8];
      }
      sums[r] += (static_cast<float>(sum) - 8 * row.sums[g]) * to_float(scales[g]);
    }
    sums[r] *= *row.factor;
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
  hn::Vec<decltype(d)> total[kRows], eighth[kRows];  // of the weights + 8, and of the inputs alone
  for (int r = 0; r < kRows; ++r) {
    row[r] = int4_row(x, groups, r);
    total[r] = eighth[r] = hn::Zero(d);
  }
  for (int64_t first = 0; first < groups; first += lanes) {
    const int64_t left = std::min(lanes, groups - first);
    const auto some = left == lanes ? load(d, scales + first)
                                    : load_first(d, scales + first, static_cast<size_t>(left));
    for (int r = 0; r < kRows; ++r) {
      eighth[r] = hn::MulAdd(some, hn::LoadU(d, row[r].sums + first), eighth[r]);
    }
    auto which = quarter;
    for (int64_t g = first; g < first + left; g += step) {
      const auto scale = hn::TableLookupLanes(some, hn::IndicesFromVec(d, which));
      which = hn::Add(which, hn::Set(di, static_cast<int32_t>(step)));
      fetch_ahead(w + g * 16, step * 16, kNarrowAhead);
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
        const auto sum = hn::RearrangeToOddPlusEven(even, odd);
        total[r] = hn::MulAdd(hn::ConvertTo(d, sum), scale, total[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const auto sum = hn::NegMulAdd(hn::Set(d, 8.0f), eighth[r], total[r]);
    sums[r] = sum_lanes(d, sum) * *row[r].factor;
  }
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
