// The forward passes of causal TSSA for one instruction set. A pass takes the tokens in groups of
// kTokenGroup: their rows stay in the L1 cache from the logits to the output.
#if defined(TOST_KERNELS_CAUSAL_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_CAUSAL_FORWARD_INL_H_
#undef TOST_KERNELS_CAUSAL_FORWARD_INL_H_
#else
#define TOST_KERNELS_CAUSAL_FORWARD_INL_H_
#endif

#include "tost/kernels/causal_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// lanes[t] += the lanes of sum_i q / E, and rest += q, over a tile of channels.
template <class T>
struct LogitTile {
  const T* w;
  int64_t w_stride;
  int64_t tokens;
  const float* base;
  float* rest;
  float* lanes;

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    WideVec before[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, base + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, rest + c + v * size, count);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const T* p = w + t * w_stride + c;
      auto sum = hn::Zero(d);
      for (int64_t v = 0; v < kVectors; ++v) {
        prefetch_next_group(p + v * size, w_stride);
        const auto x = load_lanes<kPartial>(d, p + v * size, count);
        const auto q = hn::Mul(x, x);
        since[v] = hn::Add(since[v], q);
        sum = hn::MulAdd(q, inverse_energy(d, hn::Add(before[v], since[v])), sum);
      }
      hn::Store(hn::Add(hn::Load(d, lanes + t * size), sum), d, lanes + t * size);
    }
    for (int64_t v = 0; v < kVectors; ++v)
      store_lanes<kPartial>(d, since[v], rest + c + v * size, count);
  }
};

template <class T>
void causal_logits(const CausalBlock& b) {
  HWY_ALIGN float lanes[kTokenGroup * kMaxLanes];
  HWY_ALIGN float sums[kTokenGroup];
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    const T* w = static_cast<const T*>(b.w) + t0 * b.w_stride;
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      std::fill_n(lanes, kTokenGroup * kMaxLanes, 0.0f);
      for_each_tile(b.width, LogitTile<T>{w + c, b.w_stride, count, b.base + c, b.rest + c, lanes});
      sum_lanes_of_tokens(lanes, count, sums);
      std::copy_n(sums, count, b.logit + k * b.logit_stride + t0);
    }
  }
}

// Tokens in lanes.
inline void causal_softmax(const CausalBlock& b) {
  float* const a = b.scratch;
  const float width = static_cast<float>(b.width);
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    const int64_t biased = std::clamp<int64_t>(b.bias_tokens - t0, 0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      float* to = a + k * kTokenGroup;
      const float* from = b.logit + k * b.logit_stride + t0;
      for (int64_t t = 0; t < kTokenGroup; ++t) to[t] = t < count ? from[t] : 0.0f;
      if (biased == 0) continue;  // b.bias may be null
      const float* bias = b.bias + k * b.bias_stride + t0;
      for (int64_t t = 0; t < biased; ++t) to[t] += width * bias[t];
    }
    softmax_over_heads(b.temp, b.heads, a);
    for (int64_t k = 0; k < b.heads; ++k)
      std::copy_n(a + k * kTokenGroup, count, b.pi_out + k * b.pi_stride + t0);
  }
}

// The three weights of a token in one head: -Pi N', Pi, N' with N' = N + 1e-8.
struct TokenWeights {
  float scale[kTokenGroup];
  float pi[kTokenGroup];
  float guarded[kTokenGroup];

  HWY_INLINE void fill(const float* from, int64_t count, double* sum) {
    double total = *sum;
    for (int64_t t = 0; t < count; ++t) {
      total += from[t];
      pi[t] = from[t];
      guarded[t] = static_cast<float>(total + 1e-8);
      scale[t] = -pi[t] * guarded[t];
    }
    *sum = total;
  }
};

// y = w (-Pi N') / (N' + M), and rest += Pi q, over a tile of channels.
template <class T, bool kStream>
struct OutputTile {
  const T* w;
  int64_t w_stride;
  int64_t tokens;
  const TokenWeights& weights;
  const float* base;
  float* rest;
  T* out;
  int64_t out_stride;

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    WideVec before[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, base + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, rest + c + v * size, count);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const auto pi = hn::Set(d, weights.pi[t]);
      const auto guarded = hn::Set(d, weights.guarded[t]);
      const auto scale = hn::Set(d, weights.scale[t]);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, count);
        since[v] = hn::MulAdd(hn::Mul(x, x), pi, since[v]);
        const auto whole = hn::Add(hn::Add(before[v], guarded), since[v]);
        const auto y = hn::Mul(hn::Mul(x, scale), reciprocal(d, whole));
        write_lanes<kPartial, kStream>(y, out + t * out_stride + i, count);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v)
      store_lanes<kPartial>(d, since[v], rest + c + v * size, count);
  }
};

template <class T, bool kStream>
void write_causal_output(const CausalBlock& b) {
  TokenWeights weights;
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    const T* w = static_cast<const T*>(b.w) + t0 * b.w_stride;
    T* out = static_cast<T*>(b.out) + t0 * b.out_stride;
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      weights.fill(b.pi + k * b.pi_stride + t0, count, b.pi_sum + k);
      for_each_tile(b.width, OutputTile<T, kStream>{w + c, b.w_stride, count, weights, b.base + c,
                                                    b.rest + c, out + c, b.out_stride});
    }
  }
}

template <class T>
void causal_output(const CausalBlock& b) {
  can_stream_tiles<T>(b) ? write_causal_output<T, true>(b) : write_causal_output<T, false>(b);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
