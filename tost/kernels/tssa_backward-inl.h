// The backward passes for one instruction set. Each reads the rows of w and grad_y once from memory
// (8 C bytes a token in float32); the membership pass reads w once more from cache.
#if defined(TOST_KERNELS_TSSA_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_TSSA_BACKWARD_INL_H_
#undef TOST_KERNELS_TSSA_BACKWARD_INL_H_
#else
#define TOST_KERNELS_TSSA_BACKWARD_INL_H_
#endif

#include "tost/kernels/tssa_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class T>
struct MomentGradGroups {
  const TssaBlock& b;

  template <bool kFull>
  HWY_INLINE void group(int64_t t0, int64_t count) const {
    using W = Rows<T, kFull>;
    const W w = rows_of<T, kFull>(b.w, b.w_stride, t0, count);
    const W g = rows_of<T, kFull>(b.g, b.g_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      float pi[kTokenGroup];
      load_group<kFull>(b.pi + k * b.row_stride + t0, count, pi);
      const Weights weights(pi);
      for_each_vector(b.width,
                      AddMoments<W, true>{w.shifted(c), g.shifted(c), weights, b.channel_sum + c});
    }
  }
};

template <class T>
void grad_moment_pass(const TssaBlock& b) {
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for_each_group(b.tokens, MomentGradGroups<T>{b});
}

// For one head and four rows of a group: logit[t] += (w r)^2 and slope[t] += w (w dS/N - g D).
template <class Rows>
struct SlopeTerms {
  Rows w;
  Rows g;
  int64_t first;
  const float* inv_norm;
  const float* damping;
  const float* moment_grad;
  WideVec (&logit)[4];
  WideVec (&slope)[4];

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
    const auto damp = load_lanes<kPartial>(d, damping + i, lanes);
    const auto pull = load_lanes<kPartial>(d, moment_grad + i, lanes);
#pragma GCC unroll 4
    for (int64_t t = 0; t < 4; ++t) {
      prefetch_next_group(w[first + t] + i, w.stride);
      prefetch_next_group(g[first + t] + i, g.stride);
      const auto x = load_lanes<kPartial>(d, w[first + t] + i, lanes);
      const auto v = hn::Mul(x, r);
      logit[t] = hn::MulAdd(v, v, logit[t]);
      const auto y = load_lanes<kPartial>(d, g[first + t] + i, lanes);
      slope[t] = hn::MulAdd(x, hn::MulSub(x, pull, hn::Mul(y, damp)), slope[t]);
    }
  }
};

// weight (w r)^2
template <class Rows>
struct UnitTerm {
  Rows w;
  const float* inv_norm;

  template <bool kPartial>
  HWY_INLINE WideVec add(int64_t i, int64_t t, int64_t lanes, WideVec weight, WideVec total) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
    const auto v = hn::Mul(load_lanes<kPartial>(d, w[t] + i, lanes), r);
    return hn::MulAdd(hn::Mul(v, weight), v, total);
  }
};

template <class T>
struct MembershipGradGroups {
  const TssaBlock& b;
  float* logit;       // a [H, kTokenGroup]
  float* slope;       // dPi, then da
  float* pi;          // Pi
  float* temp_lanes;  // running sums of dlogit a

  template <bool kFull>
  HWY_INLINE void group(int64_t t0, int64_t count) const {
    using W = Rows<T, kFull>;
    const W w = rows_of<T, kFull>(b.w, b.w_stride, t0, count);
    const W g = rows_of<T, kFull>(b.g, b.g_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      sum_terms(w.shifted(k * b.width), g.shifted(k * b.width), k);
      load_group<kFull>(b.pi + k * b.row_stride + t0, count, pi + k * kTokenGroup);
      if (b.grad_pi != nullptr) {
        float extra[kTokenGroup];
        load_group<kFull>(b.grad_pi + k * b.row_stride + t0, count, extra);
        for (int64_t t = 0; t < kTokenGroup; ++t) slope[k * kTokenGroup + t] += extra[t];
      }
    }
    through_softmax();
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      const float* da = slope + k * kTokenGroup;
      store_group<kFull>(da, count, b.logit_grad + k * b.row_stride + t0);
      const Weights weights(da);
      for_each_vector(b.width, AddWeighted<UnitTerm<W>>{
                                   {w.shifted(c), b.inv_norm + c}, weights, b.channel_sum + c});
    }
  }

 private:
  template <class W>
  HWY_INLINE void sum_terms(W w, W g, int64_t k) const {
    const Wide d;
    const int64_t c = k * b.width;
    for (int64_t t = 0; t < kTokenGroup; t += 4) {
      WideVec x[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      WideVec y[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for_each_vector(
          b.width, SlopeTerms<W>{w, g, t, b.inv_norm + c, b.damping + c, b.moment_grad + c, x, y});
      sum_lanes_of_four(x[0], x[1], x[2], x[3], logit + k * kTokenGroup + t);
      sum_lanes_of_four(y[0], y[1], y[2], y[3], slope + k * kTokenGroup + t);
    }
    for (int64_t t = 0; t < kTokenGroup; ++t) slope[k * kTokenGroup + t] -= b.pi_offset[k];
  }

  // slope: dPi -> da = temp Pi (dPi - sum_k Pi dPi), tokens in lanes. Missing tokens have Pi = 0.
  HWY_INLINE void through_softmax() const {
    const Group d;
    for (int64_t t = 0; t < kTokenGroup; t += static_cast<int64_t>(hn::Lanes(d))) {
      auto mean = hn::Zero(d);
      for (int64_t i = t; i < b.heads * kTokenGroup; i += kTokenGroup) {
        mean = hn::MulAdd(hn::Load(d, pi + i), hn::Load(d, slope + i), mean);
      }
      for (int64_t k = 0; k < b.heads; ++k) {
        const int64_t i = k * kTokenGroup + t;
        const auto grad = hn::Mul(hn::Load(d, pi + i), hn::Sub(hn::Load(d, slope + i), mean));
        const auto sum = hn::MulAdd(grad, hn::Load(d, logit + i), hn::Load(d, temp_lanes + i));
        hn::Store(sum, d, temp_lanes + i);
        hn::Store(hn::Mul(hn::Set(d, b.temp[k]), grad), d, slope + i);
      }
    }
  }
};

template <class T>
void grad_membership_pass(const TssaBlock& b) {
  const int64_t size = b.heads * kTokenGroup;
  float* temp_lanes = b.scratch + 3 * size;
  std::fill_n(temp_lanes, size, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for_each_group(b.tokens, MembershipGradGroups<T>{b, b.scratch, b.scratch + size,
                                                   b.scratch + 2 * size, temp_lanes});
  sum_groups(temp_lanes, b.heads, b.head_sum);
}

// grad_w = pi (2 w dS/N - g D) + 2 r v (da - pull) over the channels of one head of `count`
// rows, or of one row.
template <class T, bool kByRow, bool kStream>
struct InputGradRows {
  const T* w;
  int64_t w_stride;
  const T* g;
  int64_t g_stride;
  RowWeights<kByRow> pi;
  RowWeights<kByRow> logit_grad;
  const float* inv_norm;
  const float* damping;
  const float* moment_grad;
  const float* pull;
  int64_t count;
  T* out;
  int64_t out_stride;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
    const auto twice_r = hn::Add(r, r);
    const auto damp = load_lanes<kPartial>(d, damping + i, lanes);
    const auto half_slope = load_lanes<kPartial>(d, moment_grad + i, lanes);
    const auto slope = hn::Add(half_slope, half_slope);
    const auto mean = load_lanes<kPartial>(d, pull + i, lanes);
    for (int64_t t = 0; t < (kByRow ? 1 : count); ++t) {
      prefetch_row<kByRow ? 2 : kTokenGroup>(w + t * w_stride + i, w_stride);
      prefetch_row<kByRow ? 2 : kTokenGroup>(g + t * g_stride + i, g_stride);
      const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, lanes);
      const auto y = load_lanes<kPartial>(d, g + t * g_stride + i, lanes);
      const auto through_moment = hn::MulSub(x, slope, hn::Mul(y, damp));
      const auto da = hn::Sub(logit_grad[t], mean);
      const auto through_logit = hn::Mul(hn::Mul(x, r), hn::Mul(twice_r, da));
      const auto grad = hn::MulAdd(pi[t], through_moment, through_logit);
      write_lanes<kPartial, kStream>(grad, out + t * out_stride + i, lanes);
    }
  }
};

template <class T>
struct InputGradWriter {
  const TssaBlock& b;

  // A function of its own, so that the registers are this loop's.
  template <bool kByRow, bool kStream>
  HWY_NOINLINE void rows(int64_t first, int64_t count) const {
    const T* w = static_cast<const T*>(b.w) + first * b.w_stride;
    const T* g = static_cast<const T*>(b.g) + first * b.g_stride;
    T* out = static_cast<T*>(b.out) + first * b.out_stride;
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      const RowWeights<kByRow> pi(b.pi + k * b.row_stride + first);
      const RowWeights<kByRow> logit_grad(b.logit_grad + k * b.row_stride + first);
      for_each_vector<kByRow>(
          b.width, InputGradRows<T, kByRow, kStream>{
                       w + c, b.w_stride, g + c, b.g_stride, pi, logit_grad, b.inv_norm + c,
                       b.damping + c, b.moment_grad + c, b.pull + c, count, out + c, b.out_stride});
    }
  }
};

template <class T>
void grad_input_pass(const TssaBlock& b) {
  write_block<T>(b, InputGradWriter<T>{b});
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
