// The backward passes of causal TSSA for one instruction set. Each takes a whole chunk and walks
// every tile of channels twice: forwards to restore its running sums, backwards for the reverse
// sums.
#if defined(TOST_KERNELS_CAUSAL_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_CAUSAL_BACKWARD_INL_H_
#undef TOST_KERNELS_CAUSAL_BACKWARD_INL_H_
#else
#define TOST_KERNELS_CAUSAL_BACKWARD_INL_H_
#endif

#include "tost/kernels/causal_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// The backward schedule goes to the chunk before next.
template <class T>
HWY_INLINE void prefetch_previous_chunk(const T* p, int64_t stride) {
  __builtin_prefetch(p - kCausalChunk * stride, /*write=*/0, /*locality=*/2);
}

// Of the tokens of a chunk in one head: Pi, N' = N + 1e-8, Pi / N'.
struct ChunkWeights {
  float pi[kCausalChunk];
  float guarded[kCausalChunk];
  float ratio[kCausalChunk];

  HWY_INLINE void fill(const float* from, int64_t count, double total) {
    for (int64_t t = 0; t < count; ++t) {
      total += from[t];
      pi[t] = from[t];
      guarded[t] = static_cast<float>(total + 1e-8);
    }
    for (int64_t t = 0; t < count; ++t) ratio[t] = pi[t] / guarded[t];
  }
};

// With h = g w D and R the reverse sum of h D Pi / N': adds to the lanes of each token the sums
// over channels of R q - h (slope) and of h - h D = g w D^2 S (pull); direct = Pi (2 R w - g D).
template <class T>
struct MembershipGradTile {
  const T* w;
  int64_t w_stride;
  const T* g;
  int64_t g_stride;
  int64_t tokens;
  const ChunkWeights& weights;
  const float* moment_base;
  const float* base;
  float* rest;
  float* direct;
  int64_t direct_stride;
  float* damping;  // scratch [kCausalChunk, tile]
  float* slope;    // [kCausalChunk, lanes]
  float* pull;     // [kCausalChunk, lanes]

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    restore_damping<kVectors, kPartial>(c, count);
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    WideVec after[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      after[v] = load_lanes<kPartial>(d, base + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, rest + c + v * size, count);
    }
    for (int64_t t = tokens - 1; t >= 0; --t) {
      const auto pi = hn::Set(d, weights.pi[t]);
      const auto ratio = hn::Set(d, weights.ratio[t]);
      auto slopes = hn::Load(d, slope + t * size);
      auto pulls = hn::Load(d, pull + t * size);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        prefetch_previous_chunk(g + t * g_stride + i, g_stride);
        const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, count);
        const auto damp = hn::Load(d, damping + (t * kVectors + v) * size);
        const auto damped = hn::Mul(load_lanes<kPartial>(d, g + t * g_stride + i, count), damp);
        const auto h = hn::Mul(damped, x);
        const auto twice = hn::Mul(h, damp);
        since[v] = hn::MulAdd(twice, ratio, since[v]);
        const auto raise = hn::Mul(hn::Add(after[v], since[v]), x);
        slopes = hn::Add(slopes, hn::MulSub(raise, x, h));
        pulls = hn::Add(pulls, hn::Sub(h, twice));
        const auto part = hn::Mul(pi, hn::Sub(hn::Add(raise, raise), damped));
        store_lanes<kPartial>(d, part, direct + t * direct_stride + i, count);
      }
      hn::Store(slopes, d, slope + t * size);
      hn::Store(pulls, d, pull + t * size);
    }
    for (int64_t v = 0; v < kVectors; ++v)
      store_lanes<kPartial>(d, since[v], rest + c + v * size, count);
  }

 private:
  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void restore_damping(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    WideVec before[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, moment_base + c + v * size, count);
      since[v] = hn::Zero(d);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const T* p = w + t * w_stride + c;
      const auto pi = hn::Set(d, weights.pi[t]);
      const auto guarded = hn::Set(d, weights.guarded[t]);
      for (int64_t v = 0; v < kVectors; ++v) {
        prefetch_previous_chunk(p + v * size, w_stride);
        const auto x = load_lanes<kPartial>(d, p + v * size, count);
        since[v] = hn::MulAdd(hn::Mul(x, x), pi, since[v]);
        const auto whole = hn::Add(hn::Add(before[v], guarded), since[v]);
        hn::Store(hn::Mul(guarded, reciprocal(d, whole)), d, damping + (t * kVectors + v) * size);
      }
    }
  }
};

template <class T>
void causal_grad_membership(const CausalBlock& b) {
  HWY_ALIGN float damping[kCausalChunk * kTileVectors * kMaxLanes];
  HWY_ALIGN float lanes[2 * kCausalChunk * kMaxLanes];
  float* const pull_lanes = lanes + kCausalChunk * kMaxLanes;
  float slope[kCausalChunk], pull[kCausalChunk];
  ChunkWeights weights;
  for (int64_t k = 0; k < b.heads; ++k) {
    const int64_t c = k * b.width;
    weights.fill(b.pi + k * b.pi_stride, b.tokens, b.pi_base[k]);
    std::fill_n(lanes, 2 * kCausalChunk * kMaxLanes, 0.0f);
    for_each_tile(b.width,
                  MembershipGradTile<T>{static_cast<const T*>(b.w) + c, b.w_stride,
                                        static_cast<const T*>(b.g) + c, b.g_stride, b.tokens,
                                        weights, b.moment_base + c, b.base + c, b.rest + c,
                                        b.direct + c, b.direct_stride, damping, lanes, pull_lanes});
    sum_lanes_of_tokens(lanes, b.tokens, slope);
    sum_lanes_of_tokens(pull_lanes, b.tokens, pull);
    double total = b.weight_pull[k];
    float* to = b.logit + k * b.logit_stride;
    for (int64_t t = b.tokens - 1; t >= 0; --t) {
      total += static_cast<double>(weights.ratio[t]) * pull[t];
      to[t] = slope[t] - static_cast<float>(total);
      if (b.grad_pi != nullptr) to[t] += b.grad_pi[k * b.pi_stride + t];
    }
    b.weight_pull[k] = total;
  }
}

// logit = Pi (dPi - sum over heads of Pi dPi), tokens in lanes.
struct GradSoftmax {
  const CausalBlock& b;

  template <bool kPartial>
  HWY_INLINE void run(int64_t t, int64_t count) const {
    const Wide d;
    auto mean = hn::Zero(d);
    for (int64_t k = 0; k < b.heads; ++k) {
      const auto pi = load_lanes<kPartial>(d, b.pi + k * b.pi_stride + t, count);
      const auto slope = load_lanes<kPartial>(d, b.logit + k * b.logit_stride + t, count);
      mean = hn::MulAdd(pi, slope, mean);
    }
    for (int64_t k = 0; k < b.heads; ++k) {
      float* p = b.logit + k * b.logit_stride + t;
      const auto pi = load_lanes<kPartial>(d, b.pi + k * b.pi_stride + t, count);
      const auto slope = load_lanes<kPartial>(d, p, count);
      store_lanes<kPartial>(d, hn::Mul(pi, hn::Sub(slope, mean)), p, count);
    }
  }
};

inline void causal_grad_softmax(const CausalBlock& b) {
  for_each_vector(b.tokens, GradSoftmax{b});
}

// With r = 1 / E and R the reverse sum of dlogit q r^2: out = direct + 2 temp w (dlogit r - R), and
// the sum of dlogit q r is added to the gradient of temp.
template <class T, bool kStream>
struct InputGradTile {
  const T* w;
  int64_t w_stride;
  int64_t tokens;
  const float* dlogit;
  float temp;
  const float* energy_base;
  const float* base;
  float* rest;
  const float* direct;
  int64_t direct_stride;
  T* out;
  int64_t out_stride;
  // Scratch [kCausalChunk, tile]: 1 / E, negative where E is clamped, and the share of the tokens
  // before in E, 1 where E is clamped: 1 - q / E would lose its digits while E is mostly q.
  float* inverse;
  float* others;
  double* grad_temp;

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    restore_inverse<kVectors, kPartial>(c, count);
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    const auto twice_temp = hn::Set(d, 2.0f * temp);
    WideVec after[kVectors], since[kVectors], sums[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      after[v] = load_lanes<kPartial>(d, base + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, rest + c + v * size, count);
      sums[v] = hn::Zero(d);
    }
    for (int64_t t = tokens - 1; t >= 0; --t) {
      const auto grad = hn::Set(d, dlogit[t]);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        const auto x = load_lanes<kPartial>(d, w + t * w_stride + i, count);
        const auto q = hn::Mul(x, x);
        const auto signed_r = hn::Load(d, inverse + (t * kVectors + v) * size);
        const auto r = hn::Abs(signed_r);
        const auto free_r = hn::ZeroIfNegative(signed_r);
        const auto scaled = hn::Mul(grad, r);
        const auto term = hn::Mul(q, scaled);
        sums[v] = hn::Add(sums[v], term);
        const auto own = hn::Load(d, others + (t * kVectors + v) * size);
        const auto slope = hn::MulSub(scaled, own, hn::Add(after[v], since[v]));
        since[v] = hn::MulAdd(term, free_r, since[v]);
        const auto part = load_lanes<kPartial>(d, direct + t * direct_stride + i, count);
        const auto y = hn::MulAdd(hn::Mul(x, twice_temp), slope, part);
        write_lanes<kPartial, kStream>(y, out + t * out_stride + i, count);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      store_lanes<kPartial>(d, since[v], rest + c + v * size, count);
      *grad_temp += static_cast<double>(sum_lanes(d, sums[v]));
    }
  }

 private:
  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void restore_inverse(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    WideVec before[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, energy_base + c + v * size, count);
      since[v] = hn::Zero(d);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = (t * kVectors + v) * size;
        const auto x = load_lanes<kPartial>(d, w + t * w_stride + c + v * size, count);
        const auto previous = hn::Add(before[v], since[v]);
        since[v] = hn::Add(since[v], hn::Mul(x, x));
        const auto energy = hn::Add(before[v], since[v]);
        const auto r = inverse_energy(d, energy);
        const auto clamped = hn::Lt(energy, hn::Set(d, kSmallestEnergy));
        hn::Store(hn::IfThenElse(clamped, hn::Neg(r), r), d, inverse + at);
        hn::Store(hn::IfThenElse(clamped, hn::Set(d, 1.0f), hn::Mul(previous, r)), d, others + at);
      }
    }
  }
};

template <class T, bool kStream>
void write_causal_grad(const CausalBlock& b) {
  HWY_ALIGN float inverse[kCausalChunk * kTileVectors * kMaxLanes];
  HWY_ALIGN float others[kCausalChunk * kTileVectors * kMaxLanes];
  for (int64_t k = 0; k < b.heads; ++k) {
    const int64_t c = k * b.width;
    for_each_tile(b.width,
                  InputGradTile<T, kStream>{static_cast<const T*>(b.w) + c, b.w_stride, b.tokens,
                                            b.logit + k * b.logit_stride, b.temp[k],
                                            b.energy_base + c, b.base + c, b.rest + c, b.direct + c,
                                            b.direct_stride, static_cast<T*>(b.out) + c,
                                            b.out_stride, inverse, others, b.grad_temp + k});
  }
}

template <class T>
void causal_grad_input(const CausalBlock& b) {
  can_stream_tiles<T>(b) ? write_causal_grad<T, true>(b) : write_causal_grad<T, false>(b);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
