// LayerNorm, rounding to integers and epilogues of products, row by row, so that repeated reads of
// a row come from the L1 cache.
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

#include "tost/kernels/products/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int kSums = 4;  // independent, so that additions do not wait for one another

// Calls body(partial, offset, lanes, sum) over n columns, with sum cycling through kSums; `partial`
// is a constant.
template <class Body>
HWY_INLINE void over_columns(int64_t n, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) body(std::false_type(), i + s * lanes, lanes, s);
  }
  for (; i + lanes <= n; i += lanes) body(std::false_type(), i, lanes, 0);
  if (i < n) body(std::true_type(), i, n - i, 0);
}

// Several sums, minima or maxima in parallel, which are combined at the end.
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

// A row for LayerNorm: computes mean and scale, then normalised values.
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
    const Sums sums = a.shift != nullptr ? shifted(a, r) : values(a.width);
    mean = hn::Set(Wide(), sums.total() / static_cast<float>(a.width));
  }

  HWY_INLINE void find_scale(const NormRowsArgs& a) {
    Sums squares;
    over_columns(a.width, [&](auto partial, int64_t i, int64_t lanes, int s) TOST_INLINE {
      const auto off = hn::Sub(load_part<partial>(x + i, lanes), mean);
      const auto valid = only_first<partial>(off, lanes);
      squares.of[s] = hn::MulAdd(valid, valid, squares.of[s]);
    });
    const float variance = squares.total() / static_cast<float>(a.width);
    scale = hn::Set(Wide(), 1.0f / std::sqrt(variance + a.eps));
  }

  template <bool kPartial>
  HWY_INLINE WideVec get(int64_t i, int64_t lanes) const {
    const auto off = hn::Mul(hn::Sub(load_part<kPartial>(x + i, lanes), mean), scale);
    const auto w = load_part<kPartial>(weight + i, lanes);
    if (bias == nullptr) return hn::Mul(off, w);
    return hn::MulAdd(off, w, load_part<kPartial>(bias + i, lanes));
  }

 private:
  HWY_INLINE Sums values(int64_t width) const {
    Sums sums;
    over_columns(width, [&](auto partial, int64_t i, int64_t lanes, int s) TOST_INLINE {
      sums.of[s] = hn::Add(sums.of[s], load_part<partial>(x + i, lanes));
    });
    return sums;
  }

  // Sums x + shift, and stores it in place of x.
  HWY_INLINE Sums shifted(const NormRowsArgs& a, int64_t r) {
    Sums sums;
    if constexpr (std::is_same_v<T, float>) {
      const float* shift = a.shift;
      float* to = a.shifted + r * a.x_stride;
      over_columns(a.width, [&](auto partial, int64_t i, int64_t lanes, int s) TOST_INLINE {
        const auto v =
            hn::Add(load_part<partial>(x + i, lanes), load_part<partial>(shift + i, lanes));
        store_part<partial>(v, to + i, lanes);
        sums.of[s] = hn::Add(sums.of[s], v);
      });
      x = to;
    }
    return sums;
  }
};

// A row whose values are used unchanged.
template <class T>
struct PlainRow {
  const T* x;

  template <bool kPartial>
  HWY_INLINE WideVec get(int64_t i, int64_t lanes) const {
    return load_part<kPartial>(x + i, lanes);
  }
};

// The smallest and the largest of a row and 0; `broken` is NaN if a value is not finite, else 0.
struct RowRange {
  float low, high, broken;
};

template <class Row>
HWY_INLINE RowRange range_of(const Row& row, int64_t width) {
  Sums low, high, broken;
  over_columns(width, [&](auto partial, int64_t i, int64_t lanes, int s) TOST_INLINE {
    const auto v = only_first<partial>(row.template get<partial>(i, lanes), lanes);
    low.of[s] = hn::Min(low.of[s], v);
    high.of[s] = hn::Max(high.of[s], v);
    broken.of[s] = hn::MulAdd(v, hn::Zero(Wide()), broken.of[s]);
  });
  return {low.lowest(), high.highest(), broken.total()};
}

// Maps the bits of bfloat16 to integers in the same order, with NaN outermost; its own inverse.
template <class D>
HWY_INLINE hn::Vec<D> in_order(D d, hn::Vec<D> bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), hn::Set(d, 0x7FFF)));
}
inline float value_of(int16_t in_order) {
  const auto bits = static_cast<uint16_t>(in_order ^ (in_order < 0 ? 0x7FFF : 0));
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Computes the range of a row in bfloat16, with twice as many values at a time as in float32.
inline RowRange range_of(const PlainRow<Bf16>& row, int64_t width) {
  const hn::ScalableTag<int16_t> d;
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<int16_t>());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const int16_t*>(row.x);
  auto low = hn::Zero(d), high = low;
  const auto include = [&](const int16_t* values) {
    const auto ordered = in_order(d, hn::LoadU(d, values));
    low = hn::Min(low, ordered);
    high = hn::Max(high, ordered);
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

// A constant whose sum with a number from 0 to 255 has the nearest integer in the lowest bits.
constexpr float kToInteger = 0x1.8p23f;

// The scale and zero by which a row is rounded to bytes.
struct Rounding {
  float inverse, zero;

  HWY_INLINE Rounding(const RowRange& range, float* scale, int32_t* zero_point) {
    const float step = range.high / 255 - range.low / 255;
    // The smallest step with a finite inverse; a row with a smaller step counts as zeros.
    const bool usable = step > 4 * std::numeric_limits<float>::min();
    inverse = usable ? 1 / step : 0.0f;
    // If a value is not finite, the zero of the row is 0 and its scale is NaN.
    zero = usable && std::isfinite(step) ? std::nearbyint(-range.low * inverse) : 0.0f;
    *zero_point = static_cast<int32_t>(zero);
    *scale = (usable ? step : 0.0f) + range.broken;
  }

  template <class Row>
  HWY_INLINE void store(const Row& row, int64_t width, uint8_t* y) const {
    const Wide d;
    const hn::RebindToUnsigned<Wide> du;
    const hn::Rebind<uint8_t, Wide> d8;
    const auto factor = hn::Set(d, inverse), at_zero = hn::Set(d, zero + kToInteger);
    over_columns(width, [&](auto partial, int64_t i, int64_t lanes, int) TOST_INLINE {
      const auto scaled = hn::MulAdd(row.template get<partial>(i, lanes), factor, at_zero);
      const auto held =
          hn::Min(hn::Max(scaled, hn::Set(d, kToInteger)), hn::Set(d, kToInteger + 255));
      const auto bytes = hn::U8FromU32(hn::And(hn::BitCast(du, held), hn::Set(du, 0xFF)));
      if constexpr (partial) {
        HWY_ALIGN uint8_t whole[hn::MaxLanes(Wide())];
        hn::StoreU(bytes, d8, whole);
        std::copy_n(whole, lanes, y + i);
      } else {
        hn::StoreU(bytes, d8, y + i);
      }
    });
  }
};

// The number of rows whose passes alternate, so that no pass waits for the previous one.
constexpr int64_t kTogether = 4;

// Calls body(first row, number of rows) for groups of rows.
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
        over_columns(a.width, [&](auto partial, int64_t i, int64_t lanes, int) TOST_INLINE {
          store_part<partial>(rows[k].template get<partial>(i, lanes), y + i, lanes);
        });
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

// The epilogue of a matrix product. The sums of a panel are read once, from the L1 cache; factors
// of columns stay in registers over all rows.
template <class Sum>
void finish_sums(const FinishRowsArgs& a) {
  for_results(a, [&]<class Out, Finish kFinish>() { finish_panel<Sum, Out, kFinish>(a); });
}

inline void finish(const FinishRowsArgs& a) {
  a.column_scale != nullptr ? finish_sums<int32_t>(a) : finish_sums<float>(a);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

HWY_EXPORT(norm);
HWY_EXPORT(quantize);
HWY_EXPORT(finish);

void norm_rows(const NormRowsArgs& args) {
  const WorkTimer timer(Work::kNorm);
  TOST_DISPATCH(norm)(args);
}

void quantize_rows(const QuantizeRowsArgs& args) {
  const WorkTimer timer(Work::kRounding);
  TOST_DISPATCH(quantize)(args);
}

void finish_rows(const FinishRowsArgs& args) {
  const WorkTimer timer(Work::kFinish);
  TOST_DISPATCH(finish)(args);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
