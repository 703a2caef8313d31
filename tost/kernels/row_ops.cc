// LayerNorm and rounding to whole numbers, row by row: a row is read several times, but from the
// first-level cache.
#include "tost/kernels/row_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/row_ops.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

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

// The lanes [0, lanes) of v, zeros behind.
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

// The values of a row after LayerNorm.
template <class T>
struct NormedRow {
  const T* x;
  const float* weight;
  const float* bias;
  WideVec mean, scale;

  HWY_INLINE NormedRow(const NormRowsArgs& a, int64_t r)
      : x(static_cast<const T*>(a.x) + r * a.x_stride), weight(a.weight), bias(a.bias) {
    const Wide d;
    const float width = static_cast<float>(a.width);
    Sums values, squares;
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
    mean = hn::Set(d, values.total() / width);
    for_each_vector(a.width, SumSquares<T>{x, mean, squares});
    scale = hn::Set(d, 1.0f / std::sqrt(squares.total() / width + a.eps));
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

template <class Row>
HWY_INLINE void quantize_row(const Row& row, int64_t width, uint8_t* y, float* scale,
                             int32_t* zero) {
  const Wide d;
  Range range{{}, {}, {}};
  for_each_vector(width, FindRange<Row>{row, range});
  const float low = range.low.lowest();
  const float high = range.high.highest();
  const float step = high / 255 - low / 255;
  // Smaller steps have no finite inverse; such a row counts as zeros.
  const bool usable = step > 4 * std::numeric_limits<float>::min();
  const float inverse = usable ? 1 / step : 0.0f;
  // 0 also where a value is not finite: such a row says so by its scale.
  *zero = usable && std::isfinite(step) ? static_cast<int32_t>(std::nearbyint(-low * inverse)) : 0;
  *scale = (usable ? step : 0.0f) + range.broken.total();
  for_each_vector(width,
                  StoreQuantized<Row>{row, hn::Set(d, inverse),
                                      hn::Set(d, static_cast<float>(*zero) + kWholeNumbers), y});
}

template <class In, class Out>
void norm_as(const NormRowsArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const NormedRow<In> row(a, r);
    Out* y = static_cast<Out*>(a.y) + r * a.y_stride;
    if constexpr (sizeof(Out) == 1) {
      quantize_row(row, a.width, y, a.scale + r, a.zero + r);
    } else {
      for_each_vector(a.width, StoreRow<NormedRow<In>, Out>{row, y});
    }
  }
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
  for (int64_t r = 0; r < a.rows; ++r) {
    const PlainRow<In> row{static_cast<const In*>(a.x) + r * a.x_stride};
    quantize_row(row, a.width, a.y + r * a.y_stride, a.scale + r, a.zero + r);
  }
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
