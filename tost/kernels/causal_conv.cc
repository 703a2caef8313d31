// The causal convolution for every instruction set: ranges of tokens, spread over threads.
#include "tost/kernels/causal_conv.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/causal_conv.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/tssa_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Row `t` of a sample: of x, of the past before it, or null for zeros.
template <class T>
HWY_INLINE const T* conv_row(const CausalConvArgs& a, int64_t sample, int64_t t) {
  if (t >= 0)
    return static_cast<const T*>(a.x.data) + sample * a.x.batch_stride + t * a.x.token_stride;
  if (a.past.data == nullptr) return nullptr;
  return static_cast<const T*>(a.past.data) + sample * a.past.batch_stride +
         (t + a.taps - 1) * a.past.token_stride;
}

// out = sum over `count` rows that are not null of filter x.
template <class T>
struct ConvRow {
  const T* const* rows;
  const float* const* filters;
  int64_t count;
  T* out;

  template <bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t lanes) const {
    const Wide d;
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) {
      sum = hn::MulAdd(load_lanes<kPartial>(d, rows[i] + c, lanes),
                       load_lanes<kPartial>(d, filters[i] + c, lanes), sum);
    }
    store_lanes<kPartial>(d, sum, out + c, lanes);
  }
};

// Rows from first to first + taps - 1 by filters 0, 1, ... (or from the last on, `turned`) to
// `out`.
template <class T, class RowAt>
HWY_INLINE void convolve_row(const CausalConvArgs& a, bool turned, const RowAt& row_at, T* out) {
  const T* rows[kMostTaps];
  const float* filters[kMostTaps];
  int64_t count = 0;
  for (int64_t i = 0; i < a.taps; ++i) {
    const T* row = row_at(i);
    if (row == nullptr) continue;
    rows[count] = row;
    filters[count++] = a.filter + (turned ? a.taps - 1 - i : i) * a.channels;
  }
  for_each_vector(a.channels, ConvRow<T>{rows, filters, count, out});
}

template <class T>
void conv_tokens(const CausalConvArgs& a, int64_t sample, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    T* out = static_cast<T*>(a.y.data) + sample * a.y.batch_stride + t * a.y.token_stride;
    convolve_row<T>(
        a, false, [&](int64_t i) { return conv_row<T>(a, sample, t - a.taps + 1 + i); }, out);
  }
}

// sum[c] = sum over tokens of grad_y times the x that filter i meets there.
template <class T>
struct FilterGrad {
  const CausalConvGradArgs& a;
  int64_t sample, begin, end, back;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t lanes) const {
    const Wide d;
    auto total = hn::Zero(d);
    const T* grad = static_cast<const T*>(a.grad_y.data) + sample * a.grad_y.batch_stride + c;
    for (int64_t t = begin; t < end; ++t) {
      const T* x = conv_row<T>(a.forward, sample, t - back);
      if (x == nullptr) continue;
      total = hn::MulAdd(load_lanes<kPartial>(d, grad + t * a.grad_y.token_stride, lanes),
                         load_lanes<kPartial>(d, x + c, lanes), total);
    }
    store_lanes<kPartial>(d, total, sum + c, lanes);
  }
};

template <class T>
void conv_grad_tokens(const CausalConvGradArgs& a, int64_t sample, int64_t begin, int64_t end,
                      float* filter_part) {
  const CausalConvArgs& f = a.forward;
  for (int64_t t = begin; t < end; ++t) {
    T* out =
        static_cast<T*>(a.grad_x.data) + sample * a.grad_x.batch_stride + t * a.grad_x.token_stride;
    convolve_row<T>(
        f, true,
        [&](int64_t i) {
          return t + i < f.tokens
                     ? static_cast<const T*>(a.grad_y.data) + sample * a.grad_y.batch_stride +
                           (t + i) * a.grad_y.token_stride
                     : nullptr;
        },
        out);
  }
  for (int64_t i = 0; i < f.taps; ++i) {
    for_each_vector(f.channels, FilterGrad<T>{a, sample, begin, end, f.taps - 1 - i,
                                              filter_part + i * f.channels});
  }
}

inline void conv_tokens_of(const CausalConvArgs& a, int64_t sample, int64_t begin, int64_t end) {
  a.dtype == DType::kBfloat16 ? conv_tokens<Bf16>(a, sample, begin, end)
                              : conv_tokens<float>(a, sample, begin, end);
}
inline void conv_grad_tokens_of(const CausalConvGradArgs& a, int64_t sample, int64_t begin,
                                int64_t end, float* filter_part) {
  a.forward.dtype == DType::kBfloat16 ? conv_grad_tokens<Bf16>(a, sample, begin, end, filter_part)
                                      : conv_grad_tokens<float>(a, sample, begin, end, filter_part);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {
namespace {

constexpr int64_t kConvRange = 64;        // tokens, of a sample, on one thread
constexpr int64_t kLightConv = 64 << 10;  // numbers; other threads are not woken for less

// Calls one(sample, first token, last token, number of the range) for ranges that cover all tokens.
template <class One>
void over_ranges(const CausalConvArgs& a, ParallelFor parallel, const One& one) {
  const int64_t ranges = (a.tokens + kConvRange - 1) / kConvRange;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % ranges * kConvRange;
      one(i / ranges, first, std::min(a.tokens, first + kConvRange), i);
    }
  };
  const bool light = a.batch * a.tokens * a.channels <= kLightConv;
  light ? run(0, a.batch * ranges) : parallel(a.batch * ranges, run);
}

}  // namespace

void causal_conv(const CausalConvArgs& args, ParallelFor parallel) {
  over_ranges(args, parallel, [&](int64_t sample, int64_t begin, int64_t end, int64_t) {
    TOST_OF_TARGET(conv_tokens_of(args, sample, begin, end));
  });
}

int64_t causal_conv_grad_workspace(const CausalConvGradArgs& args) {
  const auto& f = args.forward;
  return f.batch * ((f.tokens + kConvRange - 1) / kConvRange) * f.taps * f.channels;
}

void causal_conv_grad(const CausalConvGradArgs& args, float* workspace, ParallelFor parallel) {
  const int64_t numbers = args.forward.taps * args.forward.channels;
  over_ranges(args.forward, parallel, [&](int64_t sample, int64_t begin, int64_t end, int64_t i) {
    TOST_OF_TARGET(conv_grad_tokens_of(args, sample, begin, end, workspace + i * numbers));
  });
  const int64_t parts = causal_conv_grad_workspace(args) / std::max<int64_t>(1, numbers);
  sum_blocks(workspace, parts, numbers, 0, numbers, args.grad_filter);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
