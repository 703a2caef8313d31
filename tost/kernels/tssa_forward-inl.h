// The forward passes for one instruction set. Each reads a token row once from memory (4 C bytes in
// float32) and the membership pass once more from cache.
#if defined(TOST_KERNELS_TSSA_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_TSSA_FORWARD_INL_H_
#undef TOST_KERNELS_TSSA_FORWARD_INL_H_
#else
#define TOST_KERNELS_TSSA_FORWARD_INL_H_
#endif

#include "tost/kernels/tssa_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// sum[c] += sum over rows of w^2.
template <class T>
struct AddSquares {
  const T* w;
  int64_t stride;
  int64_t tokens;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    auto total = hn::Zero(d);
    const T* p = w + i;
    for (int64_t t = 0; t < tokens; ++t, p += stride) {
      prefetch_next_group(p, stride);
      const auto x = load_lanes<kPartial>(d, p, lanes);
      total = hn::MulAdd(x, x, total);
    }
    total = hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total);
    store_lanes<kPartial>(d, total, sum + i, lanes);
  }
};

template <class T>
void energy_pass(const TssaBlock& b) {
  const int64_t channels = b.heads * b.width;
  std::fill_n(b.channel_sum, channels, 0.0f);
  for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
    const T* rows = static_cast<const T*>(b.w) + t * b.w_stride;
    const int64_t count = std::min(kTokenGroup, b.tokens - t);
    for_each_vector(channels, AddSquares<T>{rows, b.w_stride, count, b.channel_sum});
  }
}

// The logits of one head for four rows of a group: total[t] += (w r)^2.
template <class Rows>
struct LogitTerms {
  Rows w;
  int64_t first;
  const float* inv_norm;
  WideVec (&total)[4];

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
#pragma GCC unroll 4
    for (int64_t t = 0; t < 4; ++t) {
      prefetch_next_group(w[first + t] + i, w.stride);
      const auto v = hn::Mul(load_lanes<kPartial>(d, w[first + t] + i, lanes), r);
      total[t] = hn::MulAdd(v, v, total[t]);
    }
  }
};

// Softmax over heads of temp[k] a[k][t], tokens in lanes, in place in a [H, kTokenGroup].
HWY_INLINE void softmax_over_heads(const float* temp, int64_t heads, float* a) {
  const Group d;
  for (int64_t t = 0; t < kTokenGroup; t += static_cast<int64_t>(hn::Lanes(d))) {
    auto top = hn::Mul(hn::Load(d, a + t), hn::Set(d, temp[0]));
    for (int64_t k = 0; k < heads; ++k) {
      const auto logit = hn::Mul(hn::Load(d, a + k * kTokenGroup + t), hn::Set(d, temp[k]));
      hn::Store(logit, d, a + k * kTokenGroup + t);
      top = hn::IfThenElse(hn::Gt(logit, top), logit, top);  // may pass a NaN by; the sum will not
    }
    auto sum = hn::Zero(d);
    for (int64_t k = 0; k < heads; ++k) {
      const auto e = exp_negative(d, hn::Sub(hn::Load(d, a + k * kTokenGroup + t), top));
      hn::Store(e, d, a + k * kTokenGroup + t);
      sum = hn::Add(sum, e);
    }
    const auto scale = hn::Div(hn::Set(d, 1.0f), sum);
    for (int64_t k = 0; k < heads; ++k) {
      float* p = a + k * kTokenGroup + t;
      hn::Store(hn::Mul(hn::Load(d, p), scale), d, p);
    }
  }
}

// Sums over the rows of a group, for the channels of one head: sum += weight w z. Forward z is w,
// backward grad_y, which come from memory then.
template <class Rows, bool kPrefetch = false>
struct AddMoments {
  Rows w;
  Rows z;
  const Weights& weights;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    auto total = hn::Zero(d);
#pragma GCC unroll 8
    for (int64_t t = 0; t < kTokenGroup; ++t) {
      if constexpr (kPrefetch) {
        prefetch_next_group(w[t] + i, w.stride);
        prefetch_next_group(z[t] + i, z.stride);
      }
      const auto y = hn::Mul(load_lanes<kPartial>(d, z[t] + i, lanes), weights.of[t]);
      total = hn::MulAdd(y, load_lanes<kPartial>(d, w[t] + i, lanes), total);
    }
    total = hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total);
    store_lanes<kPartial>(d, total, sum + i, lanes);
  }
};

template <class T>
struct MembershipGroups {
  const TssaBlock& b;
  float* a;         // logits, then memberships [H, kTokenGroup]
  float* pi_lanes;  // running sums of memberships [H, kTokenGroup]

  template <bool kFull>
  HWY_INLINE void group(int64_t t0, int64_t count) const {
    using W = Rows<T, kFull>;
    const Wide d;
    const W w = rows_of<T, kFull>(b.w, b.w_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      for (int64_t t = 0; t < kTokenGroup; t += 4) {
        WideVec total[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
        for_each_vector(b.width, LogitTerms<W>{w.shifted(c), t, b.inv_norm + c, total});
        sum_lanes_of_four(total[0], total[1], total[2], total[3], a + k * kTokenGroup + t);
      }
    }
    softmax_over_heads(b.temp, b.heads, a);
    for (int64_t k = 0; k < b.heads; ++k) {
      float* pi = a + k * kTokenGroup;
      for (int64_t t = kFull ? kTokenGroup : count; t < kTokenGroup; ++t) pi[t] = 0.0f;
      store_group<kFull>(pi, count, b.pi_out + k * b.row_stride + t0);
      for (int64_t t = 0; t < kTokenGroup; ++t) pi_lanes[k * kTokenGroup + t] += pi[t];
      const int64_t c = k * b.width;
      const Weights weights(pi);
      for_each_vector(b.width,
                      AddMoments<W>{w.shifted(c), w.shifted(c), weights, b.channel_sum + c});
    }
  }
};

template <class T>
void membership_pass(const TssaBlock& b) {
  const int64_t size = b.heads * kTokenGroup;
  std::fill_n(b.scratch, 2 * size, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for_each_group(b.tokens, MembershipGroups<T>{b, b.scratch, b.scratch + size});
  sum_groups(b.scratch + size, b.heads, b.head_sum);
}

// out = -(w pi) D over the channels of one head of `count` rows, or of one row.
template <class T, bool kByRow, bool kStream>
struct OutputRows {
  const T* w;
  int64_t w_stride;
  RowWeights<kByRow> pi;
  const float* damping;
  int64_t count;
  T* out;
  int64_t out_stride;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto damp = hn::Neg(load_lanes<kPartial>(d, damping + i, lanes));
    for (int64_t t = 0; t < (kByRow ? 1 : count); ++t) {
      prefetch_row<kByRow ? 2 : kTokenGroup>(w + t * w_stride + i, w_stride);
      const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, lanes);
      const auto y = hn::Mul(hn::Mul(x, pi[t]), damp);
      write_lanes<kPartial, kStream>(y, out + t * out_stride + i, lanes);
    }
  }
};

template <class T>
struct OutputWriter {
  const TssaBlock& b;

  // A function of its own, so that the registers are this loop's; with copies, which no result can
  // overwrite.
  template <bool kByRow, bool kStream>
  HWY_NOINLINE void rows(int64_t first, int64_t count) const {
    const int64_t width = b.width, row_stride = b.row_stride;
    const int64_t w_stride = b.w_stride, out_stride = b.out_stride;
    const T* w = static_cast<const T*>(b.w) + first * w_stride;
    T* out = static_cast<T*>(b.out) + first * out_stride;
    const float *pi = b.pi + first, *damping = b.damping;
    for (int64_t k = b.heads; k > 0; --k) {
      const RowWeights<kByRow> weights(pi);
      for_each_vector<kByRow>(width, OutputRows<T, kByRow, kStream>{w, w_stride, weights, damping,
                                                                    count, out, out_stride});
      w += width, out += width, damping += width, pi += row_stride;
    }
  }
};

template <class T>
void output_pass(const TssaBlock& b) {
  write_block<T>(b, OutputWriter<T>{b});
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
