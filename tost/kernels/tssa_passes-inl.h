// The passes of tssa_passes.h for one instruction set. Each reads its token rows once from memory
// and once more from cache at most: per token 4 C bytes of w (float32) forward, 8 C bytes of w and
// g backward.
#if defined(TOST_KERNELS_TSSA_PASSES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_TSSA_PASSES_INL_H_
#undef TOST_KERNELS_TSSA_PASSES_INL_H_
#else
#define TOST_KERNELS_TSSA_PASSES_INL_H_
#endif

#include <algorithm>

#include "tost/kernels/tssa_passes.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;
using Group = hn::CappedTag<float, kTokenGroup>;  // lanes are tokens

// Walks n channels in whole vectors and one partial one: body.run<kPartial>(offset, lanes).
template <class Body>
HWY_INLINE void for_each_vector(int64_t n, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body.template run<false>(i, lanes);
  if (i < n) body.template run<true>(i, n - i);
}

template <class T>
const T* row_of(const void* data, int64_t stride, int64_t token) {
  return static_cast<const T*>(data) + token * stride;
}

// sum[c] += sum over `tokens` rows of w^2.
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
      const auto x = load_lanes<kPartial>(d, p, lanes);
      total = hn::MulAdd(x, x, total);
    }
    store_lanes<kPartial>(d, hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total), sum + i,
                          lanes);
  }
};

template <class T>
void energy_pass(const TssaBlock& b) {
  const int64_t channels = b.heads * b.width;
  std::fill_n(b.channel_sum, channels, 0.0f);
  for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t);
    for_each_vector(channels,
                    AddSquares<T>{row_of<T>(b.w, b.w_stride, t), b.w_stride, count, b.channel_sum});
  }
}

// total += (w r)^2 over the lanes of one head.
template <class T>
struct LogitTerm {
  const T* w;
  const float* inv_norm;
  hn::Vec<Wide>& total;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto v = hn::Mul(load_lanes<kPartial>(d, w + i, lanes),
                           load_lanes<kPartial>(d, inv_norm + i, lanes));
    total = hn::MulAdd(v, v, total);
  }
};

// Softmax over heads of temp[k] * a[k][t], tokens in lanes, in place in a [H, kTokenGroup].
HWY_INLINE void softmax_over_heads(const float* temp, int64_t heads, float* a) {
  const Group d;
  for (int64_t t = 0; t < kTokenGroup; t += static_cast<int64_t>(hn::Lanes(d))) {
    auto top = hn::Mul(hn::Load(d, a + t), hn::Set(d, temp[0]));
    for (int64_t k = 0; k < heads; ++k) {
      const auto logit = hn::Mul(hn::Load(d, a + k * kTokenGroup + t), hn::Set(d, temp[k]));
      hn::Store(logit, d, a + k * kTokenGroup + t);
      top = hn::IfThenElse(hn::Gt(logit, top), logit, top);  // keeps a NaN out; exp brings it back
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

// sum[c] += sum_t weight[t] * x * z for the channels of one head; x and z are w, or g and w.
template <class T>
struct AddWeighted {
  const T* x;
  int64_t x_stride;
  const T* z;
  int64_t z_stride;
  const float* weight;
  int64_t tokens;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    auto total = hn::Zero(d);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto a = load_lanes<kPartial>(d, x + t * x_stride + i, lanes);
      const auto c = load_lanes<kPartial>(d, z + t * z_stride + i, lanes);
      total = hn::MulAdd(hn::Mul(a, hn::Set(d, weight[t])), c, total);
    }
    store_lanes<kPartial>(d, hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total), sum + i,
                          lanes);
  }
};

// Row sums of lanes [H, kTokenGroup] in a fixed order.
HWY_INLINE void sum_groups(const float* lanes, int64_t heads, float* sums) {
  for (int64_t k = 0; k < heads; ++k) {
    const float* p = lanes + k * kTokenGroup;
    sums[k] = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
  }
}

template <class T>
void membership_pass(const TssaBlock& b) {
  const Wide d;
  float* a = b.scratch;                         // logits, then memberships [H, 8]
  float* pi_lanes = a + b.heads * kTokenGroup;  // running sums of memberships [H, 8]
  std::fill_n(a, 2 * b.heads * kTokenGroup, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    for (int64_t t = 0; t < count; ++t) {
      const T* row = row_of<T>(b.w, b.w_stride, t0 + t);
      for (int64_t k = 0; k < b.heads; ++k) {
        auto total = hn::Zero(d);
        for_each_vector(b.width, LogitTerm<T>{row + k * b.width, b.inv_norm + k * b.width, total});
        a[k * kTokenGroup + t] = sum_lanes(d, total);
      }
    }
    softmax_over_heads(b.temp, b.heads, a);
    const T* rows = row_of<T>(b.w, b.w_stride, t0);
    for (int64_t k = 0; k < b.heads; ++k) {
      const float* weight = a + k * kTokenGroup;
      for (int64_t t = 0; t < count; ++t) {
        b.pi_out[k * b.row_stride + t0 + t] = weight[t];
        pi_lanes[k * kTokenGroup + t] += weight[t];
      }
      const T* w = rows + k * b.width;
      for_each_vector(b.width, AddWeighted<T>{w, b.w_stride, w, b.w_stride, weight, count,
                                              b.channel_sum + k * b.width});
    }
  }
  sum_groups(pi_lanes, b.heads, b.head_sum);
}

// out = -(w pi) D over the channels of one head, for up to kTokenGroup rows.
template <class T>
struct Output {
  const T* w;
  int64_t w_stride;
  const float* pi;
  const float* damping;
  int64_t tokens;
  T* out;
  int64_t out_stride;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto damp = hn::Neg(load_lanes<kPartial>(d, damping + i, lanes));
    for (int64_t t = 0; t < tokens; ++t) {
      const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, lanes);
      const auto y = hn::Mul(hn::Mul(x, hn::Set(d, pi[t])), damp);
      store_lanes<kPartial>(d, y, out + t * out_stride + i, lanes);
    }
  }
};

template <class T>
void output_pass(const TssaBlock& b) {
  for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      for_each_vector(b.width,
                      Output<T>{row_of<T>(b.w, b.w_stride, t) + c, b.w_stride,
                                b.pi + k * b.row_stride + t, b.damping + c, count,
                                static_cast<T*>(b.out) + t * b.out_stride + c, b.out_stride});
    }
  }
}

template <class T>
void grad_moment_pass(const TssaBlock& b) {
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      for_each_vector(b.width,
                      AddWeighted<T>{row_of<T>(b.g, b.g_stride, t) + c, b.g_stride,
                                     row_of<T>(b.w, b.w_stride, t) + c, b.w_stride,
                                     b.pi + k * b.row_stride + t, count, b.channel_sum + c});
    }
  }
}

// For one head of one token: logit += (w r)^2 and slope += w (w dS/N - g D).
template <class T>
struct MembershipGradTerm {
  const T* w;
  const T* g;
  const float* inv_norm;
  const float* damping;
  const float* moment_grad;
  hn::Vec<Wide>& logit;
  hn::Vec<Wide>& slope;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto x = load_lanes<kPartial>(d, w + i, lanes);
    const auto v = hn::Mul(x, load_lanes<kPartial>(d, inv_norm + i, lanes));
    logit = hn::MulAdd(v, v, logit);
    const auto direct =
        hn::Mul(load_lanes<kPartial>(d, g + i, lanes), load_lanes<kPartial>(d, damping + i, lanes));
    const auto both = hn::MulSub(x, load_lanes<kPartial>(d, moment_grad + i, lanes), direct);
    slope = hn::MulAdd(x, both, slope);
  }
};

// sum[c] += sum_t weight[t] (w r)^2 for the channels of one head.
template <class T>
struct AddWeightedUnit {
  const T* w;
  int64_t stride;
  const float* inv_norm;
  const float* weight;
  int64_t tokens;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
    auto total = hn::Zero(d);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto v = hn::Mul(load_lanes<kPartial>(d, w + t * stride + i, lanes), r);
      total = hn::MulAdd(hn::Mul(v, hn::Set(d, weight[t])), v, total);
    }
    store_lanes<kPartial>(d, hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total), sum + i,
                          lanes);
  }
};

template <class T>
void grad_membership_pass(const TssaBlock& b) {
  const Wide d;
  const int64_t size = b.heads * kTokenGroup;
  float* logit = b.scratch;          // a [H, 8]
  float* slope = logit + size;       // dPi, then da [H, 8]
  float* temp_lanes = slope + size;  // running sums of dlogit a [H, 8]
  std::fill_n(temp_lanes, size, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    for (int64_t t = 0; t < count; ++t) {
      const T* w = row_of<T>(b.w, b.w_stride, t0 + t);
      const T* g = row_of<T>(b.g, b.g_stride, t0 + t);
      float mean = 0.0f;  // sum over heads of Pi dPi
      for (int64_t k = 0; k < b.heads; ++k) {
        const int64_t c = k * b.width;
        auto logit_lanes = hn::Zero(d);
        auto slope_lanes = hn::Zero(d);
        for_each_vector(b.width,
                        MembershipGradTerm<T>{w + c, g + c, b.inv_norm + c, b.damping + c,
                                              b.moment_grad + c, logit_lanes, slope_lanes});
        float grad = sum_lanes(d, slope_lanes) - b.pi_offset[k];
        if (b.grad_pi != nullptr) grad += b.grad_pi[k * b.row_stride + t0 + t];
        logit[k * kTokenGroup + t] = sum_lanes(d, logit_lanes);
        slope[k * kTokenGroup + t] = grad;
        mean += b.pi[k * b.row_stride + t0 + t] * grad;
      }
      for (int64_t k = 0; k < b.heads; ++k) {
        const int64_t at = k * kTokenGroup + t;
        const float grad = b.pi[k * b.row_stride + t0 + t] * (slope[at] - mean);
        temp_lanes[at] += grad * logit[at];
        slope[at] = b.temp[k] * grad;
        b.logit_grad[k * b.row_stride + t0 + t] = slope[at];
      }
    }
    const T* rows = row_of<T>(b.w, b.w_stride, t0);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      for_each_vector(
          b.width, AddWeightedUnit<T>{rows + c, b.w_stride, b.inv_norm + c, slope + k * kTokenGroup,
                                      count, b.channel_sum + c});
    }
  }
  sum_groups(temp_lanes, b.heads, b.head_sum);
}

// grad_w = pi (2 w dS/N - g D) + 2 r v (da - pull) over the channels of one head.
template <class T>
struct InputGrad {
  const T* w;
  int64_t w_stride;
  const T* g;
  int64_t g_stride;
  const float* pi;
  const float* logit_grad;
  const float* inv_norm;
  const float* damping;
  const float* moment_grad;
  const float* pull;
  int64_t tokens;
  T* out;
  int64_t out_stride;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    const auto r = load_lanes<kPartial>(d, inv_norm + i, lanes);
    const auto twice_r = hn::Add(r, r);
    const auto damp = load_lanes<kPartial>(d, damping + i, lanes);
    const auto slope = load_lanes<kPartial>(d, moment_grad + i, lanes);
    const auto twice_slope = hn::Add(slope, slope);
    const auto mean = load_lanes<kPartial>(d, pull + i, lanes);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, lanes);
      const auto y = load_lanes<kPartial>(d, g + t * g_stride + i, lanes);
      const auto through_moment = hn::MulSub(x, twice_slope, hn::Mul(y, damp));
      const auto through_logit =
          hn::Mul(hn::Mul(x, r), hn::Mul(twice_r, hn::Sub(hn::Set(d, logit_grad[t]), mean)));
      const auto grad = hn::MulAdd(hn::Set(d, pi[t]), through_moment, through_logit);
      store_lanes<kPartial>(d, grad, out + t * out_stride + i, lanes);
    }
  }
};

template <class T>
void grad_input_pass(const TssaBlock& b) {
  for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      const int64_t row = k * b.row_stride + t;
      for_each_vector(b.width,
                      InputGrad<T>{row_of<T>(b.w, b.w_stride, t) + c, b.w_stride,
                                   row_of<T>(b.g, b.g_stride, t) + c, b.g_stride, b.pi + row,
                                   b.logit_grad + row, b.inv_norm + c, b.damping + c,
                                   b.moment_grad + c, b.pull + c, count,
                                   static_cast<T*>(b.out) + t * b.out_stride + c, b.out_stride});
    }
  }
}

template <class T>
inline constexpr TssaPasses kPasses = {&energy_pass<T>,          &membership_pass<T>,
                                       &output_pass<T>,          &grad_moment_pass<T>,
                                       &grad_membership_pass<T>, &grad_input_pass<T>};

inline const TssaPasses& passes_for(DType dtype) {
  return dtype == DType::kBfloat16 ? kPasses<Bf16> : kPasses<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
