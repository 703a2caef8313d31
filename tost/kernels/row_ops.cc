// LayerNorm and rounding to integers, row by row: a row is read several times, but from the
// L1 cache.
#include "tost/kernels/row_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/row_ops.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tost/kernels/native_bf16-inl.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;
using WideVec = hn::Vec<Wide>;
constexpr int kSums = 4;  // independent, so that additions do not wait for one another

// body.run<kPartial>(offset, lanes, sum) over n columns, sum cycling through kSums.
template <class Body>
HWY_INLINE void for_each_vector(int64_t n, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) body.template run<false>(i + s * lanes, lanes, s);
  }
  for (; i + lanes <= n; i += lanes) body.template run<false>(i, lanes, 0);
  if (i < n) body.template run<true>(i, n - i, 0);
}

// Sums, or smallest or largest values.
struct Sums {
  WideVec of[kSums];

  HWY_INLINE Sums() {
    for (auto& sum : of) sum = hn::Zero(Wide());
  }
  HWY_INLINE float total() const {
    return sum_lanes(Wide(), hn::Add(hn::Add(of[0], of[1]), hn::Add(of[2], of[3])));
  }
  HWY_INLINE float lowest() const {
    const auto least = hn::Min(hn::Min(of[0], of[1]), hn::Min(of[2], of[3]));
    return hn::GetLane(hn::MinOfLanes(Wide(), least));
  }
  HWY_INLINE float highest() const {
    const auto most = hn::Max(hn::Max(of[0], of[1]), hn::Max(of[2], of[3]));
    return hn::GetLane(hn::MaxOfLanes(Wide(), most));
  }
};

// The lanes [0, lanes) of v, then zeros.
template <bool kPartial>
HWY_INLINE WideVec first_lanes(WideVec v, int64_t lanes) {
  if constexpr (kPartial) {
    return hn::IfThenElseZero(hn::FirstN(Wide(), static_cast<size_t>(lanes)), v);
  } else {
    return v;
  }
}

template <class T>
struct SumValues {
  const T* x;
  Sums& sums;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int s) const {
    sums.of[s] = hn::Add(sums.of[s], load_lanes<kPartial>(Wide(), x + i, lanes));
  }
};

// The same of shifted = x + shift.
struct ShiftValues {
  const float* x;
  const float* shift;
  float* shifted;
  Sums& sums;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int s) const {
    const Wide d;
    const auto v =
        hn::Add(load_lanes<kPartial>(d, x + i, lanes), load_lanes<kPartial>(d, shift + i, lanes));
    store_lanes<kPartial>(d, v, shifted + i, lanes);
    sums.of[s] = hn::Add(sums.of[s], v);
  }
};

template <class T>
struct SumSquares {
  const T* x;
  WideVec mean;
  Sums& sums;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int s) const {
    const auto off = hn::Sub(load_lanes<kPartial>(Wide(), x + i, lanes), mean);
    const auto own = first_lanes<kPartial>(off, lanes);
    sums.of[s] = hn::MulAdd(own, own, sums.of[s]);
  }
};

// The values of a row after LayerNorm, once its mean and then its scale are found.
template <class T>
struct NormedRow {
  const T* x;
  const float* weight;
  const float* bias;
  WideVec mean, scale;

  HWY_INLINE NormedRow() {}  // See Column in finish-inl.h.

  HWY_INLINE void find_mean(const NormRowsArgs& a, int64_t r) {
    x = static_cast<const T*>(a.x) + r * a.x_stride;
    weight = a.weight;
    bias = a.bias;
    Sums values;
    bool shifts = false;
    if constexpr (std::is_same_v<T, float>) {
      shifts = a.shift != nullptr;
      if (shifts) {
        float* own = a.shifted + r * a.x_stride;
        for_each_vector(a.width, ShiftValues{x, a.shift, own, values});
        x = own;
      }
    }
    if (!shifts) for_each_vector(a.width, SumValues<T>{x, values});
    mean = hn::Set(Wide(), values.total() / static_cast<float>(a.width));
  }

  HWY_INLINE void find_scale(const NormRowsArgs& a) {
    Sums squares;
    for_each_vector(a.width, SumSquares<T>{x, mean, squares});
    const float variance = squares.total() / static_cast<float>(a.width);
    scale = hn::Set(Wide(), 1.0f / std::sqrt(variance + a.eps));
  }

  template <bool kPartial>
  HWY_INLINE WideVec get(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto off = hn::Mul(hn::Sub(load_lanes<kPartial>(d, x + i, lanes), mean), scale);
    const auto w = load_lanes<kPartial>(d, weight + i, lanes);
    if (bias == nullptr) return hn::Mul(off, w);
    return hn::MulAdd(off, w, load_lanes<kPartial>(d, bias + i, lanes));
  }
};

// The values of a row as they are.
template <class T>
struct PlainRow {
  const T* x;

  template <bool kPartial>
  HWY_INLINE WideVec get(int64_t i, int64_t lanes) const {
    return load_lanes<kPartial>(Wide(), x + i, lanes);
  }
};

template <class Row, class Out>
struct StoreRow {
  const Row& row;
  Out* y;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int) const {
    store_lanes<kPartial>(Wide(), row.template get<kPartial>(i, lanes), y + i, lanes);
  }
};

// Smallest and largest value, 0 included, and a sum that is NaN where a value is not finite.
struct Range {
  Sums low, high, broken;
};

template <class Row>
struct FindRange {
  const Row& row;
  Range& range;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int s) const {
    const auto v = first_lanes<kPartial>(row.template get<kPartial>(i, lanes), lanes);
    range.low.of[s] = hn::Min(range.low.of[s], v);
    range.high.of[s] = hn::Max(range.high.of[s], v);
    range.broken.of[s] = hn::MulAdd(v, hn::Zero(Wide()), range.broken.of[s]);
  }
};

// Added to a number from 0 to 255 it leaves the nearest whole one in the lowest bits.
constexpr float kWholeNumbers = 0x1.8p23f;

template <class Row>
struct StoreQuantized {
  const Row& row;
  WideVec inverse, zero;  // the latter with kWholeNumbers
  uint8_t* y;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes, int) const {
    const Wide d;
    const hn::RebindToUnsigned<Wide> du;
    const hn::Rebind<uint8_t, Wide> d8;
    const auto scaled = hn::MulAdd(row.template get<kPartial>(i, lanes), inverse, zero);
    const auto held =
        hn::Min(hn::Max(scaled, hn::Set(d, kWholeNumbers)), hn::Set(d, kWholeNumbers + 255));
    const auto bytes = hn::U8FromU32(hn::And(hn::BitCast(du, held), hn::Set(du, 0xFF)));
    if constexpr (kPartial) {
      HWY_ALIGN uint8_t whole[hn::MaxLanes(Wide())];
      hn::StoreU(bytes, d8, whole);
      for (int64_t k = 0; k < lanes; ++k) y[i + k] = whole[k];
    } else {
      hn::StoreU(bytes, d8, y + i);
    }
  }
};

// Of a row, 0 included; `broken` is NaN where a value is not finite, else 0.
struct RowRange {
  float low, high, broken;
};

template <class Row>
HWY_INLINE RowRange range_of(const Row& row, int64_t width) {
  Range range{{}, {}, {}};
  for_each_vector(width, FindRange<Row>{row, range});
  return {range.low.lowest(), range.high.highest(), range.broken.total()};
}

// Integers in the order of the bfloat16 with these bits, NaN outermost; its own inverse.
template <class D>
HWY_INLINE hn::Vec<D> in_order(D d, hn::Vec<D> bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), hn::Set(d, 0x7FFF)));
}
inline float value_of(int16_t in_order) {
  const auto bits = static_cast<uint16_t>(in_order ^ (in_order < 0 ? 0x7FFF : 0));
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Twice as many values at a time as in float32.
inline RowRange range_of(const PlainRow<Bf16>& row, int64_t width) {
  const hn::ScalableTag<int16_t> d;
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<int16_t>());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const int16_t*>(row.x);
  auto low = hn::Zero(d), high = low;
  const auto include = [&](const int16_t* values) {
    const auto own = in_order(d, hn::LoadU(d, values));
    low = hn::Min(low, own);
    high = hn::Max(high, own);
  };
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) include(bits + i);
  if (i < width) {
    HWY_ALIGN int16_t rest[kMost] = {};
    std::copy(bits + i, bits + width, rest);
    include(rest);
  }
  HWY_ALIGN int16_t lows[kMost] = {}, highs[kMost] = {};
  hn::Store(low, d, lows);
  hn::Store(high, d, highs);
  int16_t first = 0, last = 0;
  for (size_t k = 0; k < kMost; ++k) {
    first = std::min(first, lows[k]);
    last = std::max(last, highs[k]);
  }
  const float least = value_of(first), most = value_of(last);
  return {least, most, 0 * least + 0 * most};
}

// How a row becomes bytes.
struct Rounding {
  float inverse, zero;

  HWY_INLINE Rounding(const RowRange& range, float* scale, int32_t* zero_point) {
    const float step = range.high / 255 - range.low / 255;
    // Smaller steps have no finite inverse; such a row counts as zeros.
    const bool usable = step > 4 * std::numeric_limits<float>::min();
    inverse = usable ? 1 / step : 0.0f;
    // 0 also where a value is not finite: such a row says so by its scale.
    zero = usable && std::isfinite(step) ? std::nearbyint(-range.low * inverse) : 0.0f;
    *zero_point = static_cast<int32_t>(zero);
    *scale = (usable ? step : 0.0f) + range.broken;
  }

  template <class Row>
  HWY_INLINE void store(const Row& row, int64_t width, uint8_t* y) const {
    const Wide d;
    const auto at_zero = hn::Set(d, zero + kWholeNumbers);
    for_each_vector(width, StoreQuantized<Row>{row, hn::Set(d, inverse), at_zero, y});
  }
};

// Rows whose passes alternate, so that none waits for the sum or range of its own last pass.
constexpr int64_t kTogether = 4;

// body(first row, number of rows).
template <class Body>
HWY_INLINE void for_row_groups(int64_t rows, const Body& body) {
  for (int64_t r = 0; r < rows; r += kTogether) body(r, std::min(kTogether, rows - r));
}

// args: NormRowsArgs or QuantizeRowsArgs.
template <class Row, class Args>
HWY_INLINE void quantize_group(const Row* rows, int64_t count, const Args& a, int64_t first) {
  RowRange ranges[kTogether];
  for (int64_t k = 0; k < count; ++k) ranges[k] = range_of(rows[k], a.width);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t r = first + k;
    const Rounding rounding(ranges[k], a.scale + r, a.zero + r);
    rounding.store(rows[k], a.width, static_cast<uint8_t*>(a.y) + r * a.y_stride);
  }
}

template <class In, class Out>
void norm_as(const NormRowsArgs& a) {
  for_row_groups(a.rows, [&](int64_t first, int64_t count) {
    NormedRow<In> rows[kTogether];
    for (int64_t k = 0; k < count; ++k) rows[k].find_mean(a, first + k);
    for (int64_t k = 0; k < count; ++k) rows[k].find_scale(a);
    if constexpr (sizeof(Out) == 1) {
      quantize_group(rows, count, a, first);
    } else {
      for (int64_t k = 0; k < count; ++k) {
        Out* y = static_cast<Out*>(a.y) + (first + k) * a.y_stride;
        for_each_vector(a.width, StoreRow<NormedRow<In>, Out>{rows[k], y});
      }
    }
  });
}

template <class In>
void norm_from(const NormRowsArgs& a) {
  switch (a.y_type) {
    case RowType::kFloat32:
      return norm_as<In, float>(a);
    case RowType::kBfloat16:
      return has_native_bf16() ? norm_as<In, NativeBf16>(a) : norm_as<In, Bf16>(a);
    default:
      return norm_as<In, uint8_t>(a);
  }
}

inline void norm(const NormRowsArgs& a) {
  a.x_dtype == DType::kBfloat16 ? norm_from<Bf16>(a) : norm_from<float>(a);
}

template <class In>
void quantize_from(const QuantizeRowsArgs& a) {
  for_row_groups(a.rows, [&](int64_t first, int64_t count) {
    PlainRow<In> rows[kTogether];
    for (int64_t k = 0; k < count; ++k) {
      rows[k].x = static_cast<const In*>(a.x) + (first + k) * a.x_stride;
    }
    quantize_group(rows, count, a, first);
  });
}

inline void quantize(const QuantizeRowsArgs& a) {
  a.x_dtype == DType::kBfloat16 ? quantize_from<Bf16>(a) : quantize_from<float>(a);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

void norm_rows(const NormRowsArgs& args) {
  const WorkTimer timer(Work::kNorm);
  TOST_OF_TARGET(norm(args));
}

void quantize_rows(const QuantizeRowsArgs& args) {
  const WorkTimer timer(Work::kRounding);
  TOST_OF_TARGET(quantize(args));
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
