#include "tost/kernels/attend_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/attend_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "tost/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Computes weights[h][j] = query_h · x_j for kQueries queries.
template <class T, int kQueries>
void score(const AttendRowsArgs& a) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < a.rows; ++j) {
    const T* x = static_cast<const T*>(a.x) + j * a.x_stride;
    WideVec even[kQueries], odd[kQueries];
    for (int h = 0; h < kQueries; ++h) even[h] = odd[h] = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * lanes <= a.width; i += 2 * lanes) {
      const auto v = load(d, x + i), w = load(d, x + i + lanes);
      for (int h = 0; h < kQueries; ++h) {
        const float* q = a.query + h * a.query_stride + i;
        even[h] = hn::MulAdd(v, hn::LoadU(d, q), even[h]);
        odd[h] = hn::MulAdd(w, hn::LoadU(d, q + lanes), odd[h]);
      }
    }
    for (; i < a.width; i += lanes) {
      const int64_t left = std::min(lanes, a.width - i);
      const auto v = load_first(d, x + i, left);
      for (int h = 0; h < kQueries; ++h) {
        const float* q = a.query + h * a.query_stride + i;
        even[h] = hn::MulAdd(v, load_first(d, q, left), even[h]);
      }
    }
    float sums[kQueries];
    for (int h = 0; h < kQueries; ++h) even[h] = hn::Add(even[h], odd[h]);
    if constexpr (kQueries == 4) {
      sum_lanes_of_four(even[0], even[1], even[2], even[3], sums);
    } else {
      for (int h = 0; h < kQueries; ++h) sums[h] = sum_lanes(d, even[h]);
    }
    for (int h = 0; h < kQueries; ++h) a.weights[h * a.rows + j] = sums[h];
  }
}

// Replaces n values by the softmax of the values times `scale`.
HWY_INLINE void softmax(float* p, int64_t n, float scale) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    p[i] *= scale;
    top = p[i] > top ? p[i] : top;
  }
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = std::min(lanes, n - i);
    const auto e = exp_negative(d, hn::Sub(load_first(d, p + i, left), hn::Set(d, top)));
    const auto exponentials = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(left)), e);
    store_first(d, exponentials, p + i, left);
    sum = hn::Add(sum, exponentials);
  }
  const float inverse = 1.0f / sum_lanes(d, sum);
  for (int64_t i = 0; i < n; ++i) p[i] *= inverse;
}

// Replaces the products of query h by weights, which are 0 for rows that it does not see.
HWY_INLINE void weigh(const AttendRowsArgs& a, int64_t h) {
  const int64_t end = a.causal ? a.rows - (a.queries - 1 - h) : a.rows;
  const int64_t begin = a.window > 0 ? std::max<int64_t>(0, end - a.window) : 0;
  float* weights = a.weights + h * a.rows;
  std::fill_n(weights, begin, 0.0f);
  softmax(weights + begin, end - begin, a.scale);
  std::fill(weights + end, weights + a.rows, 0.0f);
}

// Computes out[h][c ...] = sum_j weights[h][j] v_j[c ...] for kVectors vectors of channels.
template <class T, class Out, int kQueries, int kVectors, bool kPartial>
HWY_INLINE void gather_channels(const AttendRowsArgs& a, int64_t c, int64_t left) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  WideVec sum[kQueries][kVectors];
  for (auto& of_query : sum) {
    for (auto& of_vector : of_query) of_vector = hn::Zero(d);
  }
  for (int64_t j = 0; j < a.rows; ++j) {
    const T* x = static_cast<const T*>(a.values) + j * a.values_stride + c;
    for (int v = 0; v < kVectors; ++v) {
      const auto value = load_part<kPartial>(x + v * lanes, left);
      for (int h = 0; h < kQueries; ++h) {
        sum[h][v] = hn::MulAdd(value, hn::Set(d, a.weights[h * a.rows + j]), sum[h][v]);
      }
    }
  }
  for (int h = 0; h < kQueries; ++h) {
    Out* out = static_cast<Out*>(a.out) + h * a.out_stride + c;
    for (int v = 0; v < kVectors; ++v) {
      store_part<kPartial>(sum[h][v], out + v * lanes, left);
    }
  }
}

// Of kQueries queries from `first` on.
template <class T, class Out, int kQueries>
void attend_some(const AttendRowsArgs& all, int64_t first) {
  AttendRowsArgs a = all;
  a.queries = kQueries;
  a.query += first * a.query_stride;
  a.out = static_cast<Out*>(a.out) + first * a.out_stride;
  if (!a.causal) {
    a.weights += first * a.rows;
  } else {
    const int64_t before = all.rows - all.queries + first;
    const int64_t begin = a.window > 0 ? std::max<int64_t>(0, before + 1 - a.window) : 0;
    a.rows = before + kQueries - begin;
    a.x = static_cast<const T*>(a.x) + begin * a.x_stride;
    a.values = static_cast<const T*>(a.values) + begin * a.values_stride;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  score<T, kQueries>(a);
  for (int h = 0; h < kQueries; ++h) weigh(a, h);
  int64_t c = 0;
  for (; c + 4 * lanes <= a.width; c += 4 * lanes) {
    gather_channels<T, Out, kQueries, 4, false>(a, c, lanes);
  }
  for (; c < a.width; c += lanes) {
    gather_channels<T, Out, kQueries, 1, true>(a, c, std::min(lanes, a.width - c));
  }
}

template <class T, class Out>
void attend_as(const AttendRowsArgs& a) {
  int64_t h = 0;
  for (; h + kAttendTogether <= a.queries; h += kAttendTogether)
    attend_some<T, Out, kAttendTogether>(a, h);
  for (; h < a.queries; ++h) attend_some<T, Out, 1>(a, h);
}

template <class T>
void attend_from(const AttendRowsArgs& a) {
  a.out_dtype == DType::kBfloat16 ? attend_as<T, Bf16>(a) : attend_as<T, float>(a);
}

inline void attend(const AttendRowsArgs& a) {
  a.x_dtype == DType::kBfloat16 ? attend_from<Bf16>(a) : attend_from<float>(a);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

HWY_EXPORT(attend);

void attend_rows(AttendRowsArgs args) {
  const WorkTimer timer(Work::kMixing);
  if (args.query_stride == 0) args.query_stride = args.width;
  if (args.out_stride == 0) args.out_stride = args.width;
  if (args.values == nullptr) args.values = args.x, args.values_stride = args.x_stride;
  TOST_DISPATCH(attend)(args);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
