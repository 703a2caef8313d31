// Causal TSSA on a CPU: forward and step, backward, schedule.
//
// Why these passes. The sums run over earlier tokens, so logits, softmax and output of 8 tokens are
// computed while their rows are in the L1 cache. w is read once from memory, and y is written once.
// Backward processes chunks of 64 tokens from the last to the first, because its sums run over
// later tokens. A chunk's rows of w and grad_y are read once from memory. The forward sums within a
// chunk are restored from the stored sums before the chunk (carry).
//
// The types of the sums. Sums within a chunk are float32, sums over chunks float64. So rounding
// errors do not grow with the length, and no inner loop needs float64. The state is float64.
//
// Any number of threads gives the same bits, because a head of a sample is summed token by token in
// one order. Threads process whole samples, or heads if there are too few samples. The softmax
// needs all heads, so threads then process all heads of a window of tokens before the softmax. The
// arithmetic of a head is the same in both cases.
#include "tost/kernels/tssa_causal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/tssa_causal.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/kernels/rows-inl.h"

#ifndef TOST_KERNELS_TSSA_CAUSAL_CC_
#define TOST_KERNELS_TSSA_CAUSAL_CC_
namespace tost::kernels {

inline constexpr float kSmallestEnergy = 1e-12f;

// The arguments of a pass over some tokens of a sample's chunk, for a range of heads. Pointers are
// at the first token and the first head of the range; channel arrays are [C], head arrays [H]. Rows
// of [H, tokens] arrays are `stride` apart. A pass uses the fields its comment names.
struct CausalBlock {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t width = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  const void* g = nullptr;  // grad_y
  int64_t g_stride = 0;
  Written out;  // y or grad_w
  const float* temp = nullptr;
  const float* bias = nullptr;  // of the tokens that have one
  int64_t bias_stride = 0;
  int64_t bias_tokens = 0;  // how many of the tokens have one
  // The sums before the chunk, and the float32 sums within it, which passes update.
  const float* base = nullptr;
  float* rest = nullptr;
  double* pi_sum = nullptr;  // [H]: forward, the sum of Pi before the tokens, updated
  // The memberships, and their logits or gradients.
  float* logit = nullptr;
  int64_t logit_stride = 0;
  float* pi_out = nullptr;
  const float* pi = nullptr;
  const float* grad_pi = nullptr;  // may be null
  int64_t pi_stride = 0;
  float* scratch = nullptr;  // forward: [H, kTokenGroup]
  // Backward.
  const float* energy_base = nullptr;  // sums before the chunk
  const float* moment_base = nullptr;
  const double* pi_base = nullptr;  // [H]
  double* weight_pull = nullptr;    // [H]: reverse sum of dS S / N', updated
  double* grad_temp = nullptr;      // [H]: updated
  float* direct = nullptr;          // [tokens, C]: the part of grad_w that needs no dlogit
  int64_t direct_stride = 0;
};

struct CausalPasses {
  using Pass = void (*)(const CausalBlock&);
  Pass logits;   // logit = sum_i q / E; base and rest are those of q
  Pass softmax;  // pi_out from logit, bias and temp, all heads
  Pass output;   // out = y from pi; base and rest are those of Pi q
  // Computes `logit` = dPi and `direct` from pi for a chunk; base and rest are those of dS / N'.
  Pass grad_membership;
  Pass grad_softmax;  // logit = dlogit from dPi, all heads
  // Computes grad_w in `out` for a whole chunk; base and rest are those of dlogit q / E^2.
  Pass grad_input;
  // Computes total += rest, base = total, rest = 0 over n numbers.
  void (*fold)(double* total, float* rest, float* base, int64_t n);
  // Makes streaming stores visible to other threads.
  void (*flush)();
};

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Returns 1 / max(x, 1e-12) with the error of reciprocal().
HWY_INLINE WideVec inverse_energy(WideVec x) {
  const Wide d;
  const auto smallest = hn::Set(d, kSmallestEnergy);
#if HWY_TARGET == HWY_AVX3
  return reciprocal(d, hn::Max(smallest, x));
#else
  return reciprocal(d, hn::IfThenElse(hn::Lt(x, smallest), smallest, x));
#endif
}

inline void fold(double* total, float* rest, float* base, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    total[i] += rest[i];
    base[i] = static_cast<float>(total[i]);
    rest[i] = 0.0f;
  }
}

// ---- Forward ----

template <class T>
void causal_logits(const CausalBlock& b) {
  HWY_ALIGN float lanes[kTokenGroup * kMaxLanes];
  HWY_ALIGN float sums[kTokenGroup];
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d)), stride = b.w_stride;
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    for (int64_t k = 0; k < b.heads; ++k) {
      const T* w = static_cast<const T*>(b.w) + t0 * stride + k * b.width;
      const float* base = b.base + k * b.width;
      float* rest = b.rest + k * b.width;
      std::fill_n(lanes, kTokenGroup * kMaxLanes, 0.0f);
      over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t n) TOST_INLINE {
        WideVec before[vectors], since[vectors];
        load_tile<partial>(base + c, n, before);
        load_tile<partial>(rest + c, n, since);
        for (int64_t t = 0; t < count; ++t) {
          const T* p = w + t * stride + c;
          auto sum = hn::Zero(d);
          for (int64_t v = 0; v < vectors; ++v) {
            prefetch_next_group(p + v * size, stride);
            const auto x = load_part<partial>(p + v * size, n);
            const auto q = hn::Mul(x, x);
            since[v] = hn::Add(since[v], q);
            sum = hn::MulAdd(q, inverse_energy(hn::Add(before[v], since[v])), sum);
          }
          hn::Store(hn::Add(hn::Load(d, lanes + t * size), sum), d, lanes + t * size);
        }
        store_tile<partial>(since, rest + c, n);
      });
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
      load_group<false>(b.logit + k * b.logit_stride + t0, count, to);
      if (biased == 0) continue;  // b.bias may be null
      const float* bias = b.bias + k * b.bias_stride + t0;
      for (int64_t t = 0; t < biased; ++t) to[t] += width * bias[t];
    }
    softmax_over_heads(b.temp, b.heads, a);
    for (int64_t k = 0; k < b.heads; ++k)
      std::copy_n(a + k * kTokenGroup, count, b.pi_out + k * b.pi_stride + t0);
  }
}

// Writes Pi and N' = N + 1e-8 of a head's tokens from the sum of Pi before them; returns the sum
// after them.
HWY_INLINE double guarded_sums(const float* from, int64_t count, double total, float* pi,
                               float* guarded) {
  for (int64_t t = 0; t < count; ++t) {
    total += from[t];
    pi[t] = from[t];
    guarded[t] = static_cast<float>(total + 1e-8);
  }
  return total;
}

// Computes y = w (-Pi N') / (N' + M).
template <class T, bool kStream>
void write_causal_output(const CausalBlock& b) {
  float shares[kTokenGroup], members[kTokenGroup], scales[kTokenGroup];  // Pi, N', -Pi N'
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  const int64_t w_stride = b.w_stride, out_stride = b.out.stride;
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    for (int64_t k = 0; k < b.heads; ++k) {
      const T* w = static_cast<const T*>(b.w) + t0 * w_stride + k * b.width;
      T* out = static_cast<T*>(b.out.data) + t0 * out_stride + k * b.width;
      const float* base = b.base + k * b.width;
      float* rest = b.rest + k * b.width;
      b.pi_sum[k] = guarded_sums(b.pi + k * b.pi_stride + t0, count, b.pi_sum[k], shares, members);
      for (int64_t t = 0; t < count; ++t) scales[t] = -shares[t] * members[t];
      over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t n) TOST_INLINE {
        WideVec before[vectors], since[vectors];
        load_tile<partial>(base + c, n, before);
        load_tile<partial>(rest + c, n, since);
        for (int64_t t = 0; t < count; ++t) {
          const auto pi = hn::Set(d, shares[t]);
          const auto guarded = hn::Set(d, members[t]);
          const auto scale = hn::Set(d, scales[t]);
          for (int64_t v = 0; v < vectors; ++v) {
            const int64_t i = c + v * size;
            const auto x = load_part<partial>(w + t * w_stride + i, n);
            since[v] = hn::MulAdd(hn::Mul(x, x), pi, since[v]);
            const auto whole = hn::Add(hn::Add(before[v], guarded), since[v]);
            const auto y = hn::Mul(hn::Mul(x, scale), reciprocal(d, whole));
            write_part<partial, kStream>(y, out + t * out_stride + i, n);
          }
        }
        store_tile<partial>(since, rest + c, n);
      });
    }
  }
}

template <class T>
void causal_output(const CausalBlock& b) {
  can_stream_tiles<T>(b.out, b.width) ? write_causal_output<T, true>(b)
                                      : write_causal_output<T, false>(b);
}

// ---- Backward: each pass reads every tile of channels forwards to restore running sums, and
// backwards for reverse sums ----

// Prefetches the previous chunk, which backward processes next.
template <class T>
HWY_INLINE void prefetch_previous_chunk(const T* p, int64_t stride) {
  prefetch_row<-kCausalChunk>(p, stride);
}

// The values Pi, N' = N + 1e-8 and Pi / N' of a chunk's tokens in one head.
struct ChunkWeights {
  float pi[kCausalChunk];
  float guarded[kCausalChunk];
  float ratio[kCausalChunk];

  HWY_INLINE void fill(const float* from, int64_t count, double total) {
    guarded_sums(from, count, total, pi, guarded);
    for (int64_t t = 0; t < count; ++t) ratio[t] = pi[t] / guarded[t];
  }
};

// Computes for each token, with h = g w D and R the reverse sum of h D Pi / N', the sums over
// channels of R q - h (slope) and of h - h D = g w D^2 S (pull), and direct = Pi (2 R w - g D).
template <class T>
void causal_grad_membership(const CausalBlock& b) {
  HWY_ALIGN float damping[kCausalChunk * kTileVectors * kMaxLanes];
  HWY_ALIGN float slope_lanes[kCausalChunk * kMaxLanes], pull_lanes[kCausalChunk * kMaxLanes];
  float slope[kCausalChunk], pull[kCausalChunk];
  ChunkWeights weights;
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d)), tokens = b.tokens;
  const int64_t w_stride = b.w_stride, g_stride = b.g_stride, direct_stride = b.direct_stride;
  for (int64_t k = 0; k < b.heads; ++k) {
    const T* w = static_cast<const T*>(b.w) + k * b.width;
    const T* g = static_cast<const T*>(b.g) + k * b.width;
    const float *moment_base = b.moment_base + k * b.width, *base = b.base + k * b.width;
    float *rest = b.rest + k * b.width, *direct = b.direct + k * b.width;
    weights.fill(b.pi + k * b.pi_stride, tokens, b.pi_base[k]);
    std::fill_n(slope_lanes, kCausalChunk * kMaxLanes, 0.0f);
    std::fill_n(pull_lanes, kCausalChunk * kMaxLanes, 0.0f);
    over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t n) TOST_INLINE {
      WideVec before[vectors], after[vectors], since[vectors];
      load_tile<partial>(moment_base + c, n, before);
      for (auto& sum : since) sum = hn::Zero(d);
      for (int64_t t = 0; t < tokens; ++t) {
        const T* p = w + t * w_stride + c;
        const auto pi = hn::Set(d, weights.pi[t]);
        const auto guarded = hn::Set(d, weights.guarded[t]);
        for (int64_t v = 0; v < vectors; ++v) {
          prefetch_previous_chunk(p + v * size, w_stride);
          const auto x = load_part<partial>(p + v * size, n);
          since[v] = hn::MulAdd(hn::Mul(x, x), pi, since[v]);
          const auto whole = hn::Add(hn::Add(before[v], guarded), since[v]);
          hn::Store(hn::Mul(guarded, reciprocal(d, whole)), d, damping + (t * vectors + v) * size);
        }
      }
      load_tile<partial>(base + c, n, after);
      load_tile<partial>(rest + c, n, since);
      for (int64_t t = tokens - 1; t >= 0; --t) {
        const auto pi = hn::Set(d, weights.pi[t]);
        const auto ratio = hn::Set(d, weights.ratio[t]);
        auto slopes = hn::Load(d, slope_lanes + t * size);
        auto pulls = hn::Load(d, pull_lanes + t * size);
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t i = c + v * size;
          prefetch_previous_chunk(g + t * g_stride + i, g_stride);
          const auto x = load_part<partial>(w + t * w_stride + i, n);
          const auto damp = hn::Load(d, damping + (t * vectors + v) * size);
          const auto damped = hn::Mul(load_part<partial>(g + t * g_stride + i, n), damp);
          const auto h = hn::Mul(damped, x);
          const auto twice = hn::Mul(h, damp);
          since[v] = hn::MulAdd(twice, ratio, since[v]);
          const auto raise = hn::Mul(hn::Add(after[v], since[v]), x);
          slopes = hn::Add(slopes, hn::MulSub(raise, x, h));
          pulls = hn::Add(pulls, hn::Sub(h, twice));
          const auto part = hn::Mul(pi, hn::Sub(hn::Add(raise, raise), damped));
          store_part<partial>(part, direct + t * direct_stride + i, n);
        }
        hn::Store(slopes, d, slope_lanes + t * size);
        hn::Store(pulls, d, pull_lanes + t * size);
      }
      store_tile<partial>(since, rest + c, n);
    });
    sum_lanes_of_tokens(slope_lanes, tokens, slope);
    sum_lanes_of_tokens(pull_lanes, tokens, pull);
    double total = b.weight_pull[k];
    float* to = b.logit + k * b.logit_stride;
    for (int64_t t = tokens - 1; t >= 0; --t) {
      total += static_cast<double>(weights.ratio[t]) * pull[t];
      to[t] = slope[t] - static_cast<float>(total);
      if (b.grad_pi != nullptr) to[t] += b.grad_pi[k * b.pi_stride + t];
    }
    b.weight_pull[k] = total;
  }
}

// Computes logit = Pi (dPi - sum over heads of Pi dPi), with tokens in lanes.
inline void causal_grad_softmax(const CausalBlock& b) {
  over_row(b.tokens, [&](auto partial, int64_t t, int64_t lanes) TOST_INLINE {
    auto mean = hn::Zero(Wide());
    for (int64_t k = 0; k < b.heads; ++k) {
      const auto pi = load_part<partial>(b.pi + k * b.pi_stride + t, lanes);
      mean = hn::MulAdd(pi, load_part<partial>(b.logit + k * b.logit_stride + t, lanes), mean);
    }
    for (int64_t k = 0; k < b.heads; ++k) {
      float* p = b.logit + k * b.logit_stride + t;
      const auto pi = load_part<partial>(b.pi + k * b.pi_stride + t, lanes);
      store_part<partial>(hn::Mul(pi, hn::Sub(load_part<partial>(p, lanes), mean)), p, lanes);
    }
  });
}

// Computes, with r = 1 / E and R the reverse sum of dlogit q r^2, out = direct + 2 temp w (dlogit r
// - R), and adds the sum of dlogit q r to the gradient of temp.
template <class T, bool kStream>
void write_causal_grad(const CausalBlock& b) {
  // Computes 1 / E, negative if E is clamped. Computes the share of earlier tokens in E, 1 if E is
  // clamped, without the loss of digits in 1 - q / E.
  HWY_ALIGN float inverse[kCausalChunk * kTileVectors * kMaxLanes];
  HWY_ALIGN float others[kCausalChunk * kTileVectors * kMaxLanes];
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d)), tokens = b.tokens;
  const int64_t w_stride = b.w_stride, direct_stride = b.direct_stride, out_stride = b.out.stride;
  for (int64_t k = 0; k < b.heads; ++k) {
    const T* w = static_cast<const T*>(b.w) + k * b.width;
    T* out = static_cast<T*>(b.out.data) + k * b.width;
    const float *dlogit = b.logit + k * b.logit_stride, *direct = b.direct + k * b.width;
    const float *energy_base = b.energy_base + k * b.width, *base = b.base + k * b.width;
    float* rest = b.rest + k * b.width;
    double* grad_temp = b.grad_temp + k;
    const auto twice_temp = hn::Set(d, 2.0f * b.temp[k]);
    over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t n) TOST_INLINE {
      WideVec before[vectors], after[vectors], since[vectors], sums[vectors];
      load_tile<partial>(energy_base + c, n, before);
      for (auto& sum : since) sum = hn::Zero(d);
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t at = (t * vectors + v) * size;
          const auto x = load_part<partial>(w + t * w_stride + c + v * size, n);
          const auto previous = hn::Add(before[v], since[v]);
          since[v] = hn::Add(since[v], hn::Mul(x, x));
          const auto energy = hn::Add(before[v], since[v]);
          const auto r = inverse_energy(energy);
          const auto clamped = hn::Lt(energy, hn::Set(d, kSmallestEnergy));
          const auto share = hn::IfThenElse(clamped, hn::Set(d, 1.0f), hn::Mul(previous, r));
          hn::Store(hn::IfThenElse(clamped, hn::Neg(r), r), d, inverse + at);
          hn::Store(share, d, others + at);
        }
      }
      load_tile<partial>(base + c, n, after);
      load_tile<partial>(rest + c, n, since);
      for (auto& sum : sums) sum = hn::Zero(d);
      for (int64_t t = tokens - 1; t >= 0; --t) {
        const auto grad = hn::Set(d, dlogit[t]);
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t i = c + v * size, at = (t * vectors + v) * size;
          const auto x = load_part<partial>(w + t * w_stride + i, n);
          const auto q = hn::Mul(x, x);
          const auto signed_r = hn::Load(d, inverse + at);
          const auto r = hn::Abs(signed_r);
          const auto free_r = hn::ZeroIfNegative(signed_r);
          const auto scaled = hn::Mul(grad, r);
          const auto term = hn::Mul(q, scaled);
          sums[v] = hn::Add(sums[v], term);
          const auto share = hn::Load(d, others + at);
          const auto slope = hn::MulSub(scaled, share, hn::Add(after[v], since[v]));
          since[v] = hn::MulAdd(term, free_r, since[v]);
          const auto part = load_part<partial>(direct + t * direct_stride + i, n);
          const auto y = hn::MulAdd(hn::Mul(x, twice_temp), slope, part);
          write_part<partial, kStream>(y, out + t * out_stride + i, n);
        }
      }
      store_tile<partial>(since, rest + c, n);
      for (const auto& sum : sums) *grad_temp += static_cast<double>(sum_lanes(d, sum));
    });
  }
}

template <class T>
void causal_grad_input(const CausalBlock& b) {
  can_stream_tiles<T>(b.out, b.width) ? write_causal_grad<T, true>(b)
                                      : write_causal_grad<T, false>(b);
}

template <class T>
constexpr CausalPasses kCausalPasses = {&causal_logits<T>,
                                        &causal_softmax,
                                        &causal_output<T>,
                                        TOST_GRADIENT(causal_grad_membership<T>),
                                        TOST_GRADIENT(causal_grad_softmax),
                                        TOST_GRADIENT(causal_grad_input<T>),
                                        &fold,
                                        [] { hwy::FlushStream(); }};

inline const CausalPasses& causal_passes(DType dtype) {
  return dtype == DType::kBfloat16 ? kCausalPasses<Bf16> : kCausalPasses<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// ---- Schedule ----

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(causal_passes);

constexpr int64_t kLightWork = 64 << 10;      // floats of w; 30 us
constexpr int64_t kWindowFloats = 512 << 10;  // of w, all samples: 2 MB, in the L2 caches
constexpr int64_t kTokenRange = 256;          // tokens of a softmax that a thread takes: 10 us

// A range of heads of the tokens [begin, end) of a sample, with the slot of its buffers.
struct CausalPart {
  int64_t sample, slot, begin, end, head, heads;
};

// The distribution of a call over threads. Every thread processes whole samples (by sample). If
// there are too few samples, threads process heads of a window of tokens that stays in the caches
// (by window).
struct CausalPlan {
  CausalPlan(const TssaShape& shape, int64_t sample_window, int threads) {
    const int64_t row = std::max<int64_t>(1, shape.batch * shape.channels());
    serial = threads == 1 || row * shape.tokens <= kLightWork;
    by_sample = serial || shape.batch % threads == 0 || shape.batch >= 4 * threads;
    slots = serial ? 1 : by_sample ? std::min<int64_t>(threads, shape.batch) : shape.batch;
    const int64_t chunks = std::clamp<int64_t>(kWindowFloats / (row * kCausalChunk), 1,
                                               std::max<int64_t>(1, causal_chunks(shape.tokens)));
    window = by_sample ? sample_window : chunks * kCausalChunk;
  }

  bool by_sample;
  bool serial;     // too little work to wake other threads for
  int64_t slots;   // workspaces: one a thread by sample, one a sample by window
  int64_t window;  // tokens; by sample `sample_window`, by window a multiple of the chunk
};

// The common part of forward and backward.
template <class Args>
class CausalRun {
 public:
  int64_t workspace_bytes() const { return arena_.used(); }

 protected:
  CausalRun(const Args& args, const Tokens& out, void* workspace, int64_t sample_window,
            int threads)
      : args_(args),
        shape_(args.shape),
        out_(out),
        plan_(shape_, sample_window, threads),
        channels_(shape_.channels()),
        chunks_(causal_chunks(shape_.tokens)),
        arena_(workspace),
        stream_(
            worth_streaming(shape_.batch * shape_.tokens * channels_ * element_size(args.dtype))) {}

  // Calls one(sample, slot) for every sample; samples of the same slot follow each other.
  template <class One>
  void over_samples(ParallelFor parallel, const One& one) const {
    const auto slots = [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        const int64_t last = shape_.batch * (slot + 1) / plan_.slots;
        for (int64_t i = shape_.batch * slot / plan_.slots; i < last; ++i) one(i, slot);
        passes_->flush();
      }
    };
    plan_.serial ? slots(0, plan_.slots) : parallel(plan_.slots, slots);
  }

  // Calls heads(part), by window, for ranges of heads that cover all heads of all samples.
  template <class Heads>
  void over_heads(ParallelFor parallel, const Heads& heads) const {
    over_head_ranges(shape_, parallel, [&](int64_t sample, int64_t head, int64_t count) {
      heads(CausalPart{sample, sample, 0, shape_.tokens, head, count});
      passes_->flush();
    });
  }
  // Calls softmax(part) with all heads for ranges of tokens of [begin, end).
  template <class Softmax>
  void over_tokens(int64_t begin, int64_t end, ParallelFor parallel, const Softmax& softmax) const {
    const int64_t ranges = (end - begin + kTokenRange - 1) / kTokenRange;
    parallel(shape_.batch * ranges, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t sample = i / ranges, from = begin + i % ranges * kTokenRange;
        softmax({sample, sample, from, std::min(end, from + kTokenRange), 0, shape_.heads});
      }
    });
  }

  // The arguments for tokens [begin, end) of a part; `logits` [slots, H, stride] may be gradients.
  CausalBlock block(const CausalPart& part, int64_t begin, int64_t end, float* logits,
                    int64_t stride) const {
    const int64_t offset = part.head * shape_.width * element_size(args_.dtype);
    CausalBlock b;
    b.tokens = end - begin;
    b.heads = part.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, part.sample, begin) + offset;
    b.w_stride = args_.w.token_stride;
    b.out = {row(out_, args_.dtype, part.sample, begin) + offset, out_.token_stride, stream_};
    b.temp = args_.temp + part.head;
    b.logit = logits + (part.slot * shape_.heads + part.head) * stride + begin % plan_.window;
    b.logit_stride = stride;
    return b;
  }

  const Args& args_;
  const TssaShape& shape_;
  const Tokens& out_;
  const CausalPlan plan_;
  const int64_t channels_;
  const int64_t chunks_;
  Arena arena_;
  const bool stream_;
  const CausalPasses* passes_ = &TOST_DISPATCH(causal_passes)(args_.dtype);
};

class CausalForwardRun : public CausalRun<CausalForwardArgs> {
 public:
  CausalForwardRun(const CausalForwardArgs& args, void* workspace, int threads)
      : CausalRun(args, args.y, workspace, kTokenGroup, threads),
        state_size_(causal_state_size(shape_)),
        ranges_((plan_.window + kTokenRange - 1) / kTokenRange),
        // Pads rows, because rows of heads must not share the same few sets of a cache.
        logit_stride_(plan_.by_sample ? kTokenGroup : plan_.window + 16) {
    if (args.next_state == nullptr) state_ = arena_.take<double>(plan_.slots * state_size_);
    if (args.carry == nullptr) base_ = arena_.take<float>(plan_.slots * 2 * channels_);
    if (args.pi == nullptr) pi_ = arena_.take<float>(plan_.slots * shape_.heads * logit_stride_);
    rest_ = arena_.take<float>(plan_.slots * 2 * channels_);
    logit_ = arena_.take<float>(plan_.slots * shape_.heads * logit_stride_);
    scratch_ = arena_.take<float>(plan_.slots * ranges_ * shape_.heads * kTokenGroup);
  }

  void run(ParallelFor parallel) {
    if (!plan_.by_sample) return run_windows(parallel);
    over_samples(parallel, [&](int64_t sample, int64_t slot) {
      begin(sample, slot);
      for (int64_t t = 0; t < shape_.tokens; t += kTokenGroup) {
        const int64_t end = std::min(shape_.tokens, t + kTokenGroup);
        const CausalPart part{sample, slot, t, end, 0, shape_.heads};
        logits(part);
        softmax(part);
        output(part);
      }
      finish(sample, slot);
    });
  }

 private:
  // Computes the output of a window and the logits of the next one, to wake the threads once.
  void run_windows(ParallelFor parallel) const {
    for (int64_t sample = 0; sample < shape_.batch; ++sample) begin(sample, sample);
    int64_t done = 0, begin = 0;  // outputs are done up to there, memberships up to here
    do {
      const int64_t end = std::min(shape_.tokens, begin + plan_.window);
      over_heads(parallel, [&](CausalPart part) {
        part.begin = done, part.end = begin;
        output(part);
        part.begin = begin, part.end = end;
        logits(part);
      });
      over_tokens(begin, end, parallel, [&](const CausalPart& part) { softmax(part); });
      done = begin, begin = end;
    } while (done < shape_.tokens);
    for (int64_t sample = 0; sample < shape_.batch; ++sample) finish(sample, sample);
  }

  double* state(int64_t sample, int64_t slot) const {
    return args_.next_state != nullptr ? args_.next_state + sample * state_size_
                                       : state_ + slot * state_size_;
  }
  float* base(int64_t sample, int64_t slot, int64_t chunk) const {
    return args_.carry != nullptr ? args_.carry + (sample * chunks_ + chunk) * 2 * channels_
                                  : base_ + slot * 2 * channels_;
  }
  float* rest(int64_t slot) const { return rest_ + slot * 2 * channels_; }

  void begin(int64_t sample, int64_t slot) const {
    double* to = state(sample, slot);
    if (args_.state == nullptr) {
      std::fill_n(to, state_size_, 0.0);
    } else {
      std::memmove(to, args_.state + sample * state_size_, state_size_ * sizeof(double));
    }
    std::fill_n(rest(slot), 2 * channels_, 0.0f);
  }

  void finish(int64_t sample, int64_t slot) const {
    if (args_.next_state == nullptr) return;
    double* total = state(sample, slot);
    const float* since = rest(slot);
    for (int64_t c = 0; c < 2 * channels_; ++c) total[c] += since[c];
  }

  CausalBlock tokens(const CausalPart& part, int64_t begin, int64_t end) const {
    CausalBlock b = block(part, begin, end, logit_, logit_stride_);
    b.pi_out = args_.pi == nullptr
                   ? pi_ + (b.logit - logit_)
                   : args_.pi + (part.sample * shape_.heads + part.head) * shape_.tokens + begin;
    b.pi = b.pi_out;
    b.pi_stride = args_.pi == nullptr ? logit_stride_ : shape_.tokens;
    return b;
  }

  // Calls pass(block, first token, chunk) over the chunks of a part. Before each chunk, updates the
  // sums (energies or weighted energies) at offset `sums` of the state.
  template <class Pass>
  void over_chunks(const CausalPart& part, int64_t sums, const Pass& pass) const {
    const WorkTimer timer(Work::kMixing);
    const int64_t at = sums + part.head * shape_.width;
    for (int64_t t = part.begin; t < part.end;) {
      const int64_t chunk = t / kCausalChunk;
      const int64_t end = std::min(part.end, (chunk + 1) * kCausalChunk);
      CausalBlock b = tokens(part, t, end);
      float* before = base(part.sample, part.slot, chunk) + at;
      b.base = before;
      b.rest = rest(part.slot) + at;
      if (t % kCausalChunk == 0) {
        passes_->fold(state(part.sample, part.slot) + at, b.rest, before,
                      part.heads * shape_.width);
      }
      pass(b, t, chunk);
      t = end;
    }
  }

  void logits(const CausalPart& part) const {
    over_chunks(part, 0, [&](const CausalBlock& b, int64_t, int64_t) { passes_->logits(b); });
  }

  void softmax(const CausalPart& part) const {
    const WorkTimer timer(Work::kMixing);
    CausalBlock b = tokens(part, part.begin, part.end);
    b.bias_tokens = std::max<int64_t>(0, args_.bias.covered(shape_.tokens) - part.begin);
    if (b.bias_tokens > 0) b.bias = args_.bias.data + args_.bias.position + part.begin;
    b.bias_stride = args_.bias.length;
    const int64_t range = part.begin % plan_.window / kTokenRange;
    b.scratch = scratch_ + (part.slot * ranges_ + range) * shape_.heads * kTokenGroup;
    passes_->softmax(b);
  }

  void output(const CausalPart& part) const {
    over_chunks(part, channels_, [&](CausalBlock& b, int64_t t, int64_t chunk) {
      b.pi_sum = state(part.sample, part.slot) + 2 * channels_ + part.head;
      if (args_.pi_carry != nullptr && t % kCausalChunk == 0) {
        const int64_t at = (part.sample * chunks_ + chunk) * shape_.heads + part.head;
        std::copy_n(b.pi_sum, part.heads, args_.pi_carry + at);
      }
      passes_->output(b);
    });
  }

  const int64_t state_size_;
  const int64_t ranges_;  // of a softmax, in a window
  const int64_t logit_stride_;
  double* state_ = nullptr;  // [slots, 2 C + H]
  float* base_ = nullptr;    // [slots, 2 C]
  float* pi_ = nullptr;      // [slots, H, logit_stride]
  float* rest_;              // [slots, 2 C]
  float* logit_;             // [slots, H, logit_stride]
  float* scratch_;           // [slots, ranges, H, kTokenGroup]
};

class CausalBackwardRun : public CausalRun<CausalBackwardArgs> {
 public:
  CausalBackwardRun(const CausalBackwardArgs& args, void* workspace, int threads)
      : CausalRun(args, args.grad_w, workspace, kCausalChunk, threads),
        biased_(args.bias.covered(shape_.tokens)),
        // Pads rows, because rows of heads must not share the same few sets of a cache.
        grad_stride_(plan_.window + 16) {
    total_ = arena_.take<double>(plan_.slots * 2 * channels_);
    weight_pull_ = arena_.take<double>(plan_.slots * shape_.heads);
    grad_temp_ = arena_.take<double>(shape_.batch * shape_.heads);
    base_ = arena_.take<float>(plan_.slots * 2 * channels_);
    rest_ = arena_.take<float>(plan_.slots * 2 * channels_);
    grad_ = arena_.take<float>(plan_.slots * shape_.heads * grad_stride_);
    direct_ = arena_.take<float>(plan_.slots * plan_.window * channels_);
    logit_grad_ = arena_.take<float>(shape_.batch * shape_.heads * biased_);
  }

  void run(ParallelFor parallel) {
    if (plan_.by_sample) {
      over_samples(parallel, [&](int64_t sample, int64_t slot) {
        begin(sample, slot);
        for (int64_t chunk = chunks_ - 1; chunk >= 0; --chunk) {
          const int64_t first = chunk * kCausalChunk;
          const CausalPart part{
              sample, slot, first, std::min(shape_.tokens, first + kCausalChunk), 0, shape_.heads};
          grad_membership(part);
          grad_softmax(part);
          grad_input(part);
        }
      });
    } else {
      run_windows(parallel);
    }
    const auto finish_heads = [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) finish_head(k);
    };
    plan_.serial ? finish_heads(0, shape_.heads) : parallel(shape_.heads, finish_heads);
  }

 private:
  // Computes input gradients of a window with membership gradients of the previous one: one wake.
  void run_windows(ParallelFor parallel) const {
    for (int64_t sample = 0; sample < shape_.batch; ++sample) begin(sample, sample);
    int64_t done = shape_.tokens, end = done;  // input gradients from there, memberships from here
    do {
      const int64_t begin = end == 0 ? 0 : (end - 1) / plan_.window * plan_.window;
      over_heads(parallel, [&](CausalPart part) {
        part.begin = end, part.end = done;
        grad_input(part);
        part.begin = begin, part.end = end;
        grad_membership(part);
      });
      over_tokens(begin, end, parallel, [&](const CausalPart& part) { grad_softmax(part); });
      done = end, end = begin;
    } while (done > 0);
  }

  void begin(int64_t sample, int64_t slot) const {
    std::fill_n(total_ + slot * 2 * channels_, 2 * channels_, 0.0);
    std::fill_n(rest_ + slot * 2 * channels_, 2 * channels_, 0.0f);
    std::fill_n(weight_pull_ + slot * shape_.heads, shape_.heads, 0.0);
    std::fill_n(grad_temp_ + sample * shape_.heads, shape_.heads, 0.0);
  }

  // The arguments for tokens [begin, end) of a part, within one chunk if a pass needs its sums.
  CausalBlock tokens(const CausalPart& part, int64_t begin, int64_t end) const {
    const int64_t head = part.sample * shape_.heads + part.head;
    const int64_t channel = part.head * shape_.width;
    const int64_t chunk = part.sample * chunks_ + begin / kCausalChunk;
    CausalBlock b = block(part, begin, end, grad_, grad_stride_);
    b.g = row(args_.grad_y, args_.dtype, part.sample, begin) + channel * element_size(args_.dtype);
    b.g_stride = args_.grad_y.token_stride;
    b.pi = args_.pi + head * shape_.tokens + begin;
    if (args_.grad_pi != nullptr) b.grad_pi = args_.grad_pi + head * shape_.tokens + begin;
    b.pi_stride = shape_.tokens;
    b.energy_base = args_.carry + chunk * 2 * channels_ + channel;
    b.moment_base = b.energy_base + channels_;
    b.pi_base = args_.pi_carry + chunk * shape_.heads + part.head;
    b.weight_pull = weight_pull_ + part.slot * shape_.heads + part.head;
    b.grad_temp = grad_temp_ + head;
    b.direct = direct_ + (part.slot * plan_.window + begin % plan_.window) * channels_ + channel;
    b.direct_stride = channels_;
    return b;
  }

  // Calls pass(block) for the chunks of a part, from the last to the first. Before each chunk,
  // updates the reverse sums (of the moment or of the energy) at offset `sums`.
  void over_chunks(const CausalPart& part, int64_t sums, CausalPasses::Pass pass) const {
    const int64_t at = part.slot * 2 * channels_ + sums + part.head * shape_.width;
    for (int64_t end = part.end; end > part.begin;) {
      const int64_t begin = (end - 1) / kCausalChunk * kCausalChunk;
      CausalBlock b = tokens(part, begin, end);
      passes_->fold(total_ + at, rest_ + at, base_ + at, part.heads * shape_.width);
      b.base = base_ + at;
      b.rest = rest_ + at;
      pass(b);
      end = begin;
    }
  }

  void grad_membership(const CausalPart& part) const {
    over_chunks(part, 0, passes_->grad_membership);
  }
  void grad_input(const CausalPart& part) const {
    over_chunks(part, channels_, passes_->grad_input);
  }

  void grad_softmax(const CausalPart& part) const {
    const CausalBlock b = tokens(part, part.begin, part.end);
    passes_->grad_softmax(b);
    const int64_t biased = std::clamp<int64_t>(biased_ - part.begin, 0, b.tokens);
    for (int64_t k = 0; k < b.heads; ++k) {
      std::copy_n(b.logit + k * b.logit_stride, biased,
                  logit_grad_ + (part.sample * shape_.heads + k) * biased_ + part.begin);
    }
  }

  // Sums the gradients of a head's temp and biases over the samples.
  void finish_head(int64_t k) const {
    const auto width = static_cast<double>(shape_.width);
    double temp_grad = 0;
    for (int64_t sample = 0; sample < shape_.batch; ++sample)
      temp_grad += grad_temp_[sample * shape_.heads + k];
    float* grad = args_.grad_bias + k * args_.bias.length;
    std::fill_n(grad, args_.bias.length, 0.0f);
    for (int64_t t = 0; t < biased_; ++t) {
      double sum = 0;
      for (int64_t sample = 0; sample < shape_.batch; ++sample)
        sum += logit_grad_[(sample * shape_.heads + k) * biased_ + t];
      const int64_t at = args_.bias.position + t;
      grad[at] = static_cast<float>(width * args_.temp[k] * sum);
      temp_grad += width * args_.bias.data[k * args_.bias.length + at] * sum;
    }
    args_.grad_temp[k] = static_cast<float>(temp_grad);
  }

  const int64_t biased_;  // tokens with a bias
  const int64_t grad_stride_;
  double* total_;        // [slots, 2 C]: reverse sums of the moment's and the energy's gradients
  double* weight_pull_;  // [slots, H]
  double* grad_temp_;    // [B, H]
  float* base_;          // [slots, 2 C]
  float* rest_;          // [slots, 2 C]
  float* grad_;          // [slots, H, grad_stride]: dPi, then dlogit
  float* direct_;        // [slots, window, C]
  float* logit_grad_;    // [B, H, biased]
};

}  // namespace

int64_t causal_forward_workspace(const CausalForwardArgs& args, int threads) {
  return CausalForwardRun(args, nullptr, threads).workspace_bytes();
}
int64_t causal_backward_workspace(const CausalBackwardArgs& args, int threads) {
  return CausalBackwardRun(args, nullptr, threads).workspace_bytes();
}

void causal_forward(const CausalForwardArgs& args, void* workspace, ParallelFor parallel,
                    int threads) {
  CausalForwardRun(args, workspace, threads).run(parallel);
}
void causal_backward(const CausalBackwardArgs& args, void* workspace, ParallelFor parallel,
                     int threads) {
  CausalBackwardRun(args, workspace, threads).run(parallel);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
