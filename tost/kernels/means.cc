// Group means on a CPU, both directions: forward and step, backward, schedule.
//
// Why chunks. The sums run over earlier tokens, or over later ones in heads that read from the end;
// tokens are counted in the order in which their head reads them. A chunk of 64 tokens starts from
// the sums before it, so its rows are read once from memory and y is written once. Backward
// restores the forward sums of a chunk first, so it reads values twice, the second time from the L2
// cache. All heads of a thread process a group of 8 tokens before the next group, so that rows are
// read in the order of memory.
//
// The types of the sums. Sums within a chunk are float32, sums over chunks float64, so rounding
// errors do not grow. M_t is G^(t + 1) times M before the chunk, plus a sum within the chunk.
//
// Any number of threads gives the same bits: one thread sums a head of a sample token by token, and
// sums of samples are added in the order of samples.
#include "tost/kernels/means.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/means.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/rows-inl.h"

#ifndef TOST_KERNELS_MEANS_CC_
#define TOST_KERNELS_MEANS_CC_
namespace tost::kernels {

// Rows of tokens of one head.
struct MeansRows {
  const void* data = nullptr;
  int64_t stride = 0;
};

// The arguments of a pass: at most kTokenGroup tokens of one chunk of one head.
struct MeansBlock {
  int64_t tokens = 0;
  int64_t width = 0;
  MeansRows values, base, gate, grad_y;
  const float* pi = nullptr;
  float* grad_pi = nullptr;
  int64_t pi_stride = 0;          // of pi and grad_pi, from token to token
  float decay = 1;                // G
  const float* powers = nullptr;  // G^(1 + t) with t counted from the chunk's first token
  const float* scale = nullptr;   // [P]
  const float* before = nullptr;  // [P + 1]: M and R before the chunk
  float* rest = nullptr;          // [P + 1]: sums since the chunk began, updated
  Written y;
  // Backward. The sums M [tokens, P] and R [tokens], and 1 / sqrt(R + 1e-6), of some tokens.
  bool first = false;  // whether the chunk begins here
  float* sums = nullptr;
  int64_t sums_stride = 0;
  float* mass = nullptr;
  float* inverse = nullptr;
  const float* after = nullptr;       // [P + 1]: A and B after the chunk
  const float* end_powers = nullptr;  // end_powers[-t] is G^(tokens from t to the chunk's end)
  float* grad_scale = nullptr;        // [P]: added to
  double* grad_decay = nullptr;       // added to
  Written grad_values, grad_base, grad_gate;
};

struct MeansPasses {
  void (*forward)(const MeansBlock&);   // y; rest is that of M and R
  void (*restore)(const MeansBlock&);   // sums, mass, inverse; rest likewise
  void (*backward)(const MeansBlock&);  // the gradients; rest is that of A and B
  void (*flush)();                      // makes streaming stores visible to other threads
};

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE const T* means_row(const MeansRows& rows, int64_t t, int64_t c) {
  return static_cast<const T*>(rows.data) + t * rows.stride + c;
}
template <class T>
HWY_INLINE T* means_row(const Written& rows, int64_t t, int64_t c) {
  return static_cast<T*>(rows.data) + t * rows.stride + c;
}

// Computes 1 / (1 + exp(-x)).
HWY_INLINE WideVec sigmoid(WideVec x) {
  const Wide d;
  const auto one = hn::Set(d, 1.0f);
  const auto e = exp_negative(d, hn::Neg(hn::Abs(x)));
  const auto above = reciprocal(d, hn::Add(one, e));  // of |x|
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, above), above);
}

// The values pi, R and 1 / sqrt(R + 1e-6) of some tokens.
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
void write_means(const MeansBlock& b, const MeansWeights& weights) {
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t count) TOST_INLINE {
    const auto decay = hn::Set(d, b.decay);
    WideVec before[vectors], since[vectors], scale[vectors];
    load_tile<partial>(b.before + c, count, before);
    load_tile<partial>(b.rest + c, count, since);
    load_tile<partial>(b.scale + c, count, scale);
    for (int64_t t = 0; t < b.tokens; ++t) {
      const auto pi = hn::Set(d, weights.pi[t]), power = hn::Set(d, b.powers[t]);
      const auto inverse = hn::Set(d, weights.inverse[t]);
      for (int64_t v = 0; v < vectors; ++v) {
        const int64_t i = c + v * size;
        const T* value = means_row<T>(b.values, t, i);
        const T* base = means_row<T>(b.base, t, i);
        prefetch_next_group(value, b.values.stride);
        prefetch_next_group(base, b.base.stride);
        const auto x = hn::Mul(pi, load_part<partial>(value, count));
        since[v] = hn::MulAdd(since[v], decay, x);
        const auto mean = hn::Mul(hn::MulAdd(before[v], power, since[v]), inverse);
        auto y = hn::MulAdd(mean, scale[v], load_part<partial>(base, count));
        if constexpr (kGate) {
          const T* gate = means_row<T>(b.gate, t, i);
          prefetch_next_group(gate, b.gate.stride);
          const auto g = load_part<partial>(gate, count);
          y = hn::Mul(y, hn::Mul(g, sigmoid(g)));
        }
        write_part<partial, kStream>(y, means_row<T>(b.y, t, i), count);
      }
    }
    store_tile<partial>(since, b.rest + c, count);
  });
}

template <class T, bool kGate>
void means_forward_pass(const MeansBlock& b) {
  MeansWeights weights;
  weights.fill(b);
  can_stream_tiles<T>(b.y, b.width) ? write_means<T, kGate, true>(b, weights)
                                    : write_means<T, kGate, false>(b, weights);
}

template <class T>
void means_restore_pass(const MeansBlock& b) {
  MeansWeights weights;
  weights.fill(b);
  std::copy_n(weights.mass, b.tokens, b.mass);
  std::copy_n(weights.inverse, b.tokens, b.inverse);
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t count) TOST_INLINE {
    const auto decay = hn::Set(d, b.decay);
    WideVec before[vectors], since[vectors];
    load_tile<partial>(b.before + c, count, before);
    load_tile<partial>(b.rest + c, count, since);
    for (int64_t t = 0; t < b.tokens; ++t) {
      const auto pi = hn::Set(d, weights.pi[t]), power = hn::Set(d, b.powers[t]);
      for (int64_t v = 0; v < vectors; ++v) {
        const int64_t i = c + v * size;
        const auto x = load_part<partial>(means_row<T>(b.values, t, i), count);
        since[v] = hn::MulAdd(since[v], decay, hn::Mul(pi, x));
        const auto sum = hn::MulAdd(before[v], power, since[v]);
        store_part<partial>(sum, b.sums + t * b.sums_stride + i, count);
      }
    }
    store_tile<partial>(since, b.rest + c, count);
  });
}

// Computes dz; with a gate restores z = base + shift and writes the gradients of gate and base.
template <class T, bool kGate, bool kPartial>
HWY_INLINE WideVec through_gate(const MeansBlock& b, int64_t t, int64_t i, int64_t count,
                                WideVec shift) {
  const T* from = means_row<T>(b.grad_y, t, i);
  prefetch_row<-kTokenGroup>(from, b.grad_y.stride);
  const auto grad = load_part<kPartial>(from, count);
  if constexpr (!kGate) return grad;
  const T *base = means_row<T>(b.base, t, i), *gate = means_row<T>(b.gate, t, i);
  prefetch_row<-kTokenGroup>(base, b.base.stride);
  prefetch_row<-kTokenGroup>(gate, b.gate.stride);
  const auto z = hn::Add(load_part<kPartial>(base, count), shift);
  const auto g = load_part<kPartial>(gate, count);
  const auto open = sigmoid(g), factor = hn::Mul(g, open);
  const auto slope_of_gate = hn::MulAdd(factor, hn::Sub(hn::Set(Wide(), 1.0f), open), open);
  store_part<kPartial>(hn::Mul(hn::Mul(grad, z), slope_of_gate), means_row<T>(b.grad_gate, t, i),
                       count);
  const auto dz = hn::Mul(grad, factor);
  store_part<kPartial>(dz, means_row<T>(b.grad_base, t, i), count);
  return dz;
}

// Computes the gradients of tokens, with sums over tokens i in `slope` and `pull`.
template <class T, bool kGate>
void means_backward_pass(const MeansBlock& b) {
  HWY_ALIGN float slope_lanes[kTokenGroup * kMaxLanes] = {},
                                            pull_lanes[kTokenGroup * kMaxLanes] = {};
  float slope[kTokenGroup], pull[kTokenGroup];
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  over_tiles(b.width, [&](auto vectors, auto partial, int64_t c, int64_t count) TOST_INLINE {
    const auto decay = hn::Set(d, b.decay);
    WideVec after[vectors], since[vectors], scale_sum[vectors];
    load_tile<partial>(b.after + c, count, after);
    load_tile<partial>(b.rest + c, count, since);
    load_tile<partial>(b.grad_scale + c, count, scale_sum);
    auto decay_sum = hn::Zero(d);
    for (int64_t t = b.tokens - 1; t >= 0; --t) {
      const auto pi = hn::Set(d, b.pi[t * b.pi_stride]);
      const auto power = hn::Set(d, b.end_powers[-t]);
      const auto inverse = hn::Set(d, b.inverse[t]);
      auto slopes = hn::Load(d, slope_lanes + t * size), pulls = hn::Load(d, pull_lanes + t * size);
      for (int64_t v = 0; v < vectors; ++v) {
        const int64_t i = c + v * size;
        const float* sums = b.sums + t * b.sums_stride + i;
        const auto sum = load_part<partial>(sums, count);
        const float* previous = b.first && t == 0 ? b.before + i : sums - b.sums_stride;
        const auto scale = load_part<partial>(b.scale + i, count);
        const auto mean = hn::Mul(sum, inverse);
        const auto dz = through_gate<T, kGate, partial>(b, t, i, count, hn::Mul(mean, scale));
        scale_sum[v] = hn::MulAdd(dz, mean, scale_sum[v]);
        const auto raised = hn::Mul(dz, scale);
        pulls = hn::MulAdd(raised, sum, pulls);
        since[v] = hn::MulAdd(since[v], decay, hn::Mul(raised, inverse));
        const auto reach = hn::MulAdd(after[v], power, since[v]);  // A
        const auto x = load_part<partial>(means_row<T>(b.values, t, i), count);
        slopes = hn::MulAdd(reach, x, slopes);
        decay_sum = hn::MulAdd(reach, load_part<partial>(previous, count), decay_sum);
        store_part<partial>(hn::Mul(pi, reach), means_row<T>(b.grad_values, t, i), count);
      }
      hn::Store(slopes, d, slope_lanes + t * size);
      hn::Store(pulls, d, pull_lanes + t * size);
    }
    store_tile<partial>(since, b.rest + c, count);
    store_tile<partial>(scale_sum, b.grad_scale + c, count);
    *b.grad_decay += static_cast<double>(sum_lanes(d, decay_sum));
  });
  sum_lanes_of_tokens(slope_lanes, b.tokens, slope);
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

template <class T, bool kGate>
constexpr MeansPasses kMeansPasses = {
    &means_forward_pass<T, kGate>, TOST_GRADIENT(means_restore_pass<T>),
    TOST_GRADIENT(means_backward_pass<T, kGate>), [] { hwy::FlushStream(); }};

inline const MeansPasses& means_passes(DType dtype, bool gate) {
  if (gate) {
    return dtype == DType::kBfloat16 ? kMeansPasses<Bf16, true> : kMeansPasses<float, true>;
  }
  return dtype == DType::kBfloat16 ? kMeansPasses<Bf16, false> : kMeansPasses<float, false>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// ---- Schedule ----

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(means_passes);

constexpr int64_t kLightWork = 64 << 10;  // numbers of values: too few to wake other threads for

// The common part of forward and backward. Tokens count in the order in which heads read them.
class MeansRun {
 public:
  int64_t workspace_bytes() const { return arena_.used(); }

 protected:
  MeansRun(const MeansInputs& in, void* workspace) : in_(in), shape_(in.shape), arena_(workspace) {
    powers_ = arena_.take<float>(shape_.heads * kCausalChunk);
    rest_ = arena_.take<float>(sums());
  }

  // Calls heads(sample, first head, last head) for ranges that cover all heads of all samples.
  template <class Heads>
  void over_heads(ParallelFor parallel, const Heads& heads) const {
    for (int64_t k = 0; k < shape_.heads; ++k) {
      double power = 1.0;
      for (int64_t t = 0; t < kCausalChunk; ++t) {
        power *= in_.decay[k];
        powers_[k * kCausalChunk + t] = static_cast<float>(power);
      }
    }
    const bool light = shape_.batch * shape_.tokens * shape_.channels() <= kLightWork;
    over_head_ranges(
        shape_, light ? ParallelFor(serial_for) : parallel,
        [&](int64_t sample, int64_t first, int64_t count) { heads(sample, first, first + count); });
  }

  int64_t sums() const { return shape_.batch * means_state_size(shape_); }
  int64_t sums_of(int64_t sample, int64_t head) const {
    return (sample * shape_.heads + head) * (shape_.width + 1);
  }
  // The offset, in the carry, of the sums before a token's chunk.
  int64_t carry_of(int64_t sample, int64_t head, int64_t token) const {
    const int64_t chunk = sample * causal_chunks(shape_.tokens) + token / kCausalChunk;
    return chunk * means_state_size(shape_) + head * (shape_.width + 1);
  }
  int64_t chunk_end(int64_t token) const { return std::min(shape_.tokens, token + kCausalChunk); }

  bool reads_from_end(int64_t head) const { return head >= shape_.heads - in_.from_end; }
  int64_t place_of(int64_t head, int64_t token) const {
    return reads_from_end(head) ? shape_.tokens - 1 - token : token;
  }
  int64_t signed_stride(int64_t head, int64_t stride) const {
    return reads_from_end(head) ? -stride : stride;
  }
  template <class Rows, class Memory>
  Rows rows_at(const Memory& t, int64_t sample, int64_t head, int64_t token) const {
    if (t.data == nullptr) return {};
    const int64_t offset = head * shape_.width * element_size(in_.dtype);
    return {row(t, in_.dtype, sample, place_of(head, token)) + offset,
            signed_stride(head, t.token_stride)};
  }
  int64_t membership_at(int64_t sample, int64_t head, int64_t token) const {
    return (sample * shape_.tokens + place_of(head, token)) * shape_.heads + head;
  }

  // The arguments for a group of tokens of a head, from `token` on.
  MeansBlock block(int64_t sample, int64_t head, int64_t token) const {
    MeansBlock b;
    b.tokens = std::min(kTokenGroup, shape_.tokens - token);
    b.width = shape_.width;
    b.values = rows_at<MeansRows>(in_.values, sample, head, token);
    b.base = rows_at<MeansRows>(in_.base, sample, head, token);
    b.gate = rows_at<MeansRows>(in_.gate, sample, head, token);
    b.pi = in_.pi + membership_at(sample, head, token);
    b.pi_stride = signed_stride(head, shape_.heads);
    b.decay = powers_[head * kCausalChunk];
    b.powers = powers_ + head * kCausalChunk + token % kCausalChunk;
    b.scale = in_.scale + head * shape_.width;
    b.rest = rest_ + sums_of(sample, head);
    b.first = token % kCausalChunk == 0;
    return b;
  }

  // Computes a head's sums after a chunk from those before: total = G^tokens total + rest.
  void add_chunk(int64_t sample, int64_t head, int64_t tokens, double* total) const {
    const float* rest = rest_ + sums_of(sample, head);
    double power = 1.0;
    for (int64_t t = 0; t < tokens; ++t) power *= in_.decay[head];
    for (int64_t i = 0; i <= shape_.width; ++i) total[i] = power * total[i] + rest[i];
  }
  static void round_sums(const double* total, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(total[i]);
  }

  const MeansInputs& in_;
  const TssaShape& shape_;
  Arena arena_;
  const MeansPasses& passes_ = TOST_DISPATCH(means_passes)(in_.dtype, in_.gate.data != nullptr);
  float* powers_;  // [H, kCausalChunk]: G^1, G^2, ...
  float* rest_;    // [B, H, P + 1]
};

class MeansForwardRun : public MeansRun {
 public:
  MeansForwardRun(const MeansForwardArgs& args, void* workspace)
      : MeansRun(args.in, workspace),
        args_(args),
        stream_(worth_streaming(shape_.batch * shape_.tokens * shape_.channels() *
                                element_size(args.in.dtype))) {
    if (args.next_state == nullptr) state_ = arena_.take<double>(sums());
    if (args.carry == nullptr) before_ = arena_.take<float>(sums());
  }

  void run(ParallelFor parallel) const {
    const WorkTimer timer(Work::kMixing);
    over_heads(parallel, [&](int64_t sample, int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) begin(sample, k);
      for (int64_t t = 0; t < shape_.tokens; t += kCausalChunk) chunk(sample, first, last, t);
      passes_.flush();
    });
  }

 private:
  double* total(int64_t sample, int64_t head) const {
    return (args_.next_state != nullptr ? args_.next_state : state_) + sums_of(sample, head);
  }

  void begin(int64_t sample, int64_t head) const {
    double* to = total(sample, head);
    const double* from = args_.state;
    if (from == nullptr) {
      std::fill_n(to, shape_.width + 1, 0.0);
    } else if (from + sums_of(sample, head) != to) {
      std::copy_n(from + sums_of(sample, head), shape_.width + 1, to);
    }
  }

  // The sums before a token's chunk, as float32.
  float* before(int64_t sample, int64_t head, int64_t token) const {
    return args_.carry == nullptr ? before_ + sums_of(sample, head)
                                  : args_.carry + carry_of(sample, head, token);
  }

  void chunk(int64_t sample, int64_t first, int64_t last, int64_t token) const {
    const int64_t numbers = shape_.width + 1, end = chunk_end(token);
    for (int64_t k = first; k < last; ++k) {
      round_sums(total(sample, k), numbers, before(sample, k, token));
      std::fill_n(rest_ + sums_of(sample, k), numbers, 0.0f);
    }
    for (int64_t t = token; t < end; t += kTokenGroup) {
      for (int64_t k = first; k < last; ++k) {
        MeansBlock b = block(sample, k, t);
        b.before = before(sample, k, token);
        b.y = rows_at<Written>(args_.y, sample, k, t);
        b.y.stream = stream_;
        passes_.forward(b);
      }
    }
    for (int64_t k = first; k < last; ++k) add_chunk(sample, k, end - token, total(sample, k));
  }

  const MeansForwardArgs& args_;
  const bool stream_;
  double* state_ = nullptr;  // [B, H, P + 1], where the caller wants none
  float* before_ = nullptr;  // alike
};

class MeansBackwardRun : public MeansRun {
 public:
  MeansBackwardRun(const MeansBackwardArgs& args, void* workspace)
      : MeansRun(args.in, workspace), args_(args) {
    total_ = arena_.take<double>(sums());
    after_ = arena_.take<float>(sums());
    scale_part_ = arena_.take<float>(shape_.batch * shape_.channels());
    grad_scale_ = arena_.take<double>(shape_.batch * shape_.channels());
    grad_decay_ = arena_.take<double>(shape_.batch * shape_.heads);
    sums_ = arena_.take<float>(shape_.batch * kCausalChunk * shape_.channels());
    mass_ = arena_.take<float>(shape_.batch * shape_.heads * kCausalChunk);
    inverse_ = arena_.take<float>(shape_.batch * shape_.heads * kCausalChunk);
  }

  void run(ParallelFor parallel) const {
    std::fill_n(total_, sums(), 0.0);
    std::fill_n(grad_scale_, shape_.batch * shape_.channels(), 0.0);
    std::fill_n(grad_decay_, shape_.batch * shape_.heads, 0.0);
    over_heads(parallel, [&](int64_t sample, int64_t first, int64_t last) {
      for (int64_t i = causal_chunks(shape_.tokens) - 1; i >= 0; --i) {
        chunk(sample, first, last, i * kCausalChunk);
      }
    });
    for (int64_t c = 0; c < shape_.channels(); ++c)
      args_.grad_scale[c] = static_cast<float>(over_samples(grad_scale_ + c, shape_.channels()));
    for (int64_t k = 0; k < shape_.heads; ++k)
      args_.grad_decay[k] = over_samples(grad_decay_ + k, shape_.heads);
  }

 private:
  double over_samples(const double* first, int64_t stride) const {
    double sum = 0.0;
    for (int64_t sample = 0; sample < shape_.batch; ++sample) sum += first[sample * stride];
    return sum;
  }

  MeansBlock tokens(int64_t sample, int64_t head, int64_t t) const {
    const int64_t c = head * shape_.width, in_chunk = t % kCausalChunk;
    const int64_t row = (sample * shape_.heads + head) * kCausalChunk + in_chunk;
    MeansBlock b = block(sample, head, t);
    b.before = args_.carry + carry_of(sample, head, t);
    b.sums_stride = shape_.channels();
    b.sums = sums_ + (sample * kCausalChunk + in_chunk) * b.sums_stride + c;
    b.mass = mass_ + row;
    b.inverse = inverse_ + row;
    b.grad_y = rows_at<MeansRows>(args_.grad_y, sample, head, t);
    b.grad_values = rows_at<Written>(args_.grad_values, sample, head, t);
    b.grad_base = rows_at<Written>(args_.grad_base, sample, head, t);
    b.grad_gate = rows_at<Written>(args_.grad_gate, sample, head, t);
    b.grad_pi = args_.grad_pi + membership_at(sample, head, t);
    b.after = after_ + sums_of(sample, head);
    b.end_powers = powers_ + head * kCausalChunk + (chunk_end(t - in_chunk) - 1 - t);
    b.grad_scale = scale_part_ + sample * shape_.channels() + c;
    b.grad_decay = grad_decay_ + sample * shape_.heads + head;
    return b;
  }

  void chunk(int64_t sample, int64_t first, int64_t last, int64_t token) const {
    const int64_t numbers = (last - first) * (shape_.width + 1), end = chunk_end(token);
    const int64_t channel = sample * shape_.channels() + first * shape_.width;
    const int64_t channels = (last - first) * shape_.width;
    std::fill_n(rest_ + sums_of(sample, first), numbers, 0.0f);
    for (int64_t t = token; t < end; t += kTokenGroup) {
      for (int64_t k = first; k < last; ++k) passes_.restore(tokens(sample, k, t));
    }
    std::fill_n(rest_ + sums_of(sample, first), numbers, 0.0f);
    std::fill_n(scale_part_ + channel, channels, 0.0f);
    round_sums(total_ + sums_of(sample, first), numbers, after_ + sums_of(sample, first));
    for (int64_t t = token + (end - 1 - token) / kTokenGroup * kTokenGroup; t >= token;
         t -= kTokenGroup) {
      for (int64_t k = first; k < last; ++k) passes_.backward(tokens(sample, k, t));
    }
    for (int64_t k = first; k < last; ++k) {
      add_chunk(sample, k, end - token, total_ + sums_of(sample, k));
    }
    for (int64_t c = channel; c < channel + channels; ++c) grad_scale_[c] += scale_part_[c];
  }

  const MeansBackwardArgs& args_;
  double* total_;       // [B, H, P + 1]: A and B
  float* after_;        // alike
  float* scale_part_;   // [B, C]
  double* grad_scale_;  // [B, C]
  double* grad_decay_;  // [B, H]
  float* sums_;         // [B, kCausalChunk, C]: M of the chunk
  float* mass_;         // [B, H, kCausalChunk]: R of the chunk
  float* inverse_;      // alike: 1 / sqrt(R + 1e-6)
};

}  // namespace

int64_t means_forward_workspace(const MeansForwardArgs& args) {
  return MeansForwardRun(args, nullptr).workspace_bytes();
}
int64_t means_backward_workspace(const MeansBackwardArgs& args) {
  return MeansBackwardRun(args, nullptr).workspace_bytes();
}

void means_forward(const MeansForwardArgs& args, void* workspace, ParallelFor parallel) {
  MeansForwardRun(args, workspace).run(parallel);
}
void means_backward(const MeansBackwardArgs& args, void* workspace, ParallelFor parallel) {
  MeansBackwardRun(args, workspace).run(parallel);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
