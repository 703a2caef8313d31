// The passes of running group means for one instruction set. Each walks the channels of a head in
// tiles whose sums stay in registers over the tokens.
#if defined(TOST_KERNELS_GROUP_MEANS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_GROUP_MEANS_INL_H_
#undef TOST_KERNELS_GROUP_MEANS_INL_H_
#else
#define TOST_KERNELS_GROUP_MEANS_INL_H_
#endif

#include "tost/kernels/causal_tiles-inl.h"
#include "tost/kernels/group_means_passes.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE const T* means_row(const MeansRows& rows, int64_t t, int64_t c) {
  return static_cast<const T*>(rows.data) + t * rows.stride + c;
}
template <class T>
HWY_INLINE T* means_row(const MeansOut& rows, int64_t t, int64_t c) {
  return static_cast<T*>(rows.data) + t * rows.stride + c;
}

// 1 / (1 + exp(-x))
HWY_INLINE WideVec sigmoid(WideVec x) {
  const Wide d;
  const auto one = hn::Set(d, 1.0f);
  const auto e = exp_negative(d, hn::Neg(hn::Abs(x)));
  const auto above = reciprocal(d, hn::Add(one, e));  // of |x|
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, above), above);
}

// Of some tokens: pi, R and 1 / sqrt(R + 1e-6).
struct MeansWeights {
  HWY_ALIGN float pi[kTokenGroup];
  HWY_ALIGN float mass[kTokenGroup];
  HWY_ALIGN float inverse[kTokenGroup];

  HWY_INLINE void fill(const MeansBlock& b) {
    float since = b.rest[b.width];
    for (int64_t t = 0; t < kTokenGroup; ++t) {
      mass[t] = 1.0f;
      if (t >= b.tokens) continue;
      pi[t] = b.pi[t * b.pi_stride];
      since = b.decay * since + pi[t] * pi[t];
      mass[t] = b.before[b.width] * b.powers[t] + since;
    }
    b.rest[b.width] = since;
    const Group d;
    for (int64_t t = 0; t < kTokenGroup; t += static_cast<int64_t>(hn::Lanes(d))) {
      const auto guarded = hn::Add(hn::Load(d, mass + t), hn::Set(d, 1e-6f));
      hn::Store(hn::Div(hn::Set(d, 1.0f), hn::Sqrt(guarded)), d, inverse + t);
    }
  }
};

template <class T, bool kGate, bool kStream>
struct MeansTile {
  const MeansBlock& b;
  const MeansWeights& weights;

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    const auto decay = hn::Set(d, b.decay);
    WideVec before[kVectors], since[kVectors], scale[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, b.before + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, b.rest + c + v * size, count);
      scale[v] = load_lanes<kPartial>(d, b.scale + c + v * size, count);
    }
    for (int64_t t = 0; t < b.tokens; ++t) {
      const auto pi = hn::Set(d, weights.pi[t]), power = hn::Set(d, b.powers[t]);
      const auto inverse = hn::Set(d, weights.inverse[t]);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        const T* value = means_row<T>(b.values, t, i);
        const T* base = means_row<T>(b.base, t, i);
        prefetch_next_group(value, b.values.stride);
        prefetch_next_group(base, b.base.stride);
        const auto x = hn::Mul(pi, load_lanes<kPartial>(d, value, count));
        since[v] = hn::MulAdd(since[v], decay, x);
        const auto mean = hn::Mul(hn::MulAdd(before[v], power, since[v]), inverse);
        auto y = hn::MulAdd(mean, scale[v], load_lanes<kPartial>(d, base, count));
        if constexpr (kGate) {
          const T* gate = means_row<T>(b.gate, t, i);
          prefetch_next_group(gate, b.gate.stride);
          const auto g = load_lanes<kPartial>(d, gate, count);
          y = hn::Mul(y, hn::Mul(g, sigmoid(g)));
        }
        write_lanes<kPartial, kStream>(y, means_row<T>(b.y, t, i), count);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v)
      store_lanes<kPartial>(d, since[v], b.rest + c + v * size, count);
  }
};

// As can_stream_tiles().
template <class T>
HWY_INLINE bool can_stream_means(const MeansBlock& b) {
  const int64_t size = sizeof(T), lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  const int64_t tile = kTileVectors * lanes, run = b.width % tile == 0 ? tile : lanes;
  return b.stream && lanes * size >= 16 && whole_vectors(b.width) &&
         fills_lines(b.y.data, b.y.stride * size, run * size);
}

template <class T, bool kGate>
void means_forward_pass(const MeansBlock& b) {
  MeansWeights weights;
  weights.fill(b);
  if (can_stream_means<T>(b)) {
    for_each_tile(b.width, MeansTile<T, kGate, true>{b, weights});
  } else {
    for_each_tile(b.width, MeansTile<T, kGate, false>{b, weights});
  }
}

template <class T>
struct RestoreTile {
  const MeansBlock& b;
  const MeansWeights& weights;

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    const auto decay = hn::Set(d, b.decay);
    WideVec before[kVectors], since[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      before[v] = load_lanes<kPartial>(d, b.before + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, b.rest + c + v * size, count);
    }
    for (int64_t t = 0; t < b.tokens; ++t) {
      const auto pi = hn::Set(d, weights.pi[t]), power = hn::Set(d, b.powers[t]);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        const auto x = load_lanes<kPartial>(d, means_row<T>(b.values, t, i), count);
        since[v] = hn::MulAdd(since[v], decay, hn::Mul(pi, x));
        const auto sum = hn::MulAdd(before[v], power, since[v]);
        store_lanes<kPartial>(d, sum, b.sums + t * b.sums_stride + i, count);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v)
      store_lanes<kPartial>(d, since[v], b.rest + c + v * size, count);
  }
};

template <class T>
void means_restore_pass(const MeansBlock& b) {
  MeansWeights weights;
  weights.fill(b);
  std::copy_n(weights.mass, b.tokens, b.mass);
  std::copy_n(weights.inverse, b.tokens, b.inverse);
  for_each_tile(b.width, RestoreTile<T>{b, weights});
}

// The gradients of tokens, and for each token the lanes of sum_i A v (slope) and of
// sum_i dz scale M (pull).
template <class T, bool kGate>
struct MeansGradTile {
  const MeansBlock& b;
  float* slope;  // [kTokenGroup, lanes]
  float* pull;   // [kTokenGroup, lanes]

  template <int64_t kVectors, bool kPartial>
  HWY_INLINE void run(int64_t c, int64_t count) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    const auto decay = hn::Set(d, b.decay);
    WideVec after[kVectors], since[kVectors], scale_sum[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      after[v] = load_lanes<kPartial>(d, b.after + c + v * size, count);
      since[v] = load_lanes<kPartial>(d, b.rest + c + v * size, count);
      scale_sum[v] = load_lanes<kPartial>(d, b.grad_scale + c + v * size, count);
    }
    auto decay_sum = hn::Zero(d);
    for (int64_t t = b.tokens - 1; t >= 0; --t) {
      const auto pi = hn::Set(d, b.pi[t * b.pi_stride]);
      const auto power = hn::Set(d, b.end_powers[-t]);
      const auto inverse = hn::Set(d, b.inverse[t]);
      auto slopes = hn::Load(d, slope + t * size), pulls = hn::Load(d, pull + t * size);
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t i = c + v * size;
        const float* sums = b.sums + t * b.sums_stride + i;
        const auto sum = load_lanes<kPartial>(d, sums, count);
        const float* previous = b.first && t == 0 ? b.before + i : sums - b.sums_stride;
        const auto scale = load_lanes<kPartial>(d, b.scale + i, count);
        const auto mean = hn::Mul(sum, inverse);
        const auto dz = through_gate<kPartial>(t, i, count, hn::Mul(mean, scale));
        scale_sum[v] = hn::MulAdd(dz, mean, scale_sum[v]);
        const auto raised = hn::Mul(dz, scale);
        pulls = hn::MulAdd(raised, sum, pulls);
        since[v] = hn::MulAdd(since[v], decay, hn::Mul(raised, inverse));
        const auto reach = hn::MulAdd(after[v], power, since[v]);  // A
        const auto x = load_lanes<kPartial>(d, means_row<T>(b.values, t, i), count);
        slopes = hn::MulAdd(reach, x, slopes);
        decay_sum = hn::MulAdd(reach, load_lanes<kPartial>(d, previous, count), decay_sum);
        store_lanes<kPartial>(d, hn::Mul(pi, reach), means_row<T>(b.grad_values, t, i), count);
      }
      hn::Store(slopes, d, slope + t * size);
      hn::Store(pulls, d, pull + t * size);
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      store_lanes<kPartial>(d, since[v], b.rest + c + v * size, count);
      store_lanes<kPartial>(d, scale_sum[v], b.grad_scale + c + v * size, count);
    }
    *b.grad_decay += static_cast<double>(sum_lanes(d, decay_sum));
  }

 private:
  // dz; with a gate writes its gradient and that of base, for which z = base + shift is restored.
  template <bool kPartial>
  HWY_INLINE WideVec through_gate(int64_t t, int64_t i, int64_t count, WideVec shift) const {
    const Wide d;
    const T* from = means_row<T>(b.grad_y, t, i);
    prefetch_row<-kTokenGroup>(from, b.grad_y.stride);
    const auto grad = load_lanes<kPartial>(d, from, count);
    if constexpr (!kGate) return grad;
    const T *base = means_row<T>(b.base, t, i), *gate = means_row<T>(b.gate, t, i);
    prefetch_row<-kTokenGroup>(base, b.base.stride);
    prefetch_row<-kTokenGroup>(gate, b.gate.stride);
    const auto z = hn::Add(load_lanes<kPartial>(d, base, count), shift);
    const auto g = load_lanes<kPartial>(d, gate, count);
    const auto open = sigmoid(g), factor = hn::Mul(g, open);
    const auto slope_of_gate = hn::MulAdd(factor, hn::Sub(hn::Set(d, 1.0f), open), open);
    store_lanes<kPartial>(d, hn::Mul(hn::Mul(grad, z), slope_of_gate),
                          means_row<T>(b.grad_gate, t, i), count);
    const auto dz = hn::Mul(grad, factor);
    store_lanes<kPartial>(d, dz, means_row<T>(b.grad_base, t, i), count);
    return dz;
  }
};

template <class T, bool kGate>
void means_backward_pass(const MeansBlock& b) {
  HWY_ALIGN float lanes[2 * kTokenGroup * kMaxLanes];
  float* const pull_lanes = lanes + kTokenGroup * kMaxLanes;
  float slope[kTokenGroup], pull[kTokenGroup];
  std::fill_n(lanes, 2 * kTokenGroup * kMaxLanes, 0.0f);
  for_each_tile(b.width, MeansGradTile<T, kGate>{b, lanes, pull_lanes});
  sum_lanes_of_tokens(lanes, b.tokens, slope);
  sum_lanes_of_tokens(pull_lanes, b.tokens, pull);
  float since = b.rest[b.width];
  double decay_sum = 0.0;
  for (int64_t t = b.tokens - 1; t >= 0; --t) {
    const float r = b.inverse[t];
    since = b.decay * since - 0.5f * pull[t] * r * r * r;
    const float reach = b.after[b.width] * b.end_powers[-t] + since;  // B
    b.grad_pi[t * b.pi_stride] = slope[t] + 2.0f * b.pi[t * b.pi_stride] * reach;
    const float previous = b.first && t == 0 ? b.before[b.width] : b.mass[t - 1];
    decay_sum += static_cast<double>(reach) * previous;
  }
  *b.grad_decay += decay_sum;
  b.rest[b.width] = since;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
