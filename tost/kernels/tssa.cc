// TSSA on a CPU: forward, backward, schedule.
//
// Why these passes. A token's memberships need the energies of all tokens, and its output needs the
// second moments of all tokens. So any order of the work reads w three times:
//   forward   energy       E               reads w
//             membership   Pi, sums of Pi and of Pi w^2 reads w
//             output       y               reads w, writes y
//   backward  moment       G = sum g w Pi  reads w, g
//             membership   da, sum da v^2  reads w, g
//             input        grad_w          reads w, g, writes grad_w
// A pass processes 8 tokens at a time. Eight tokens of 768 float32 channels have 24 KB, and stay in
// the L1 cache for passes that need them twice. If a sample fits the caches, only the first of the
// three reads comes from memory, because the second pass runs backwards and the samples in progress
// fit together. Results of 8 MB and more are written by streaming stores, which bypass the caches.
//
// The types of the sums. Arithmetic and the sums over a block are float32; the sums over blocks are
// float64. A block has at most 64 tokens, so the error does not grow with the length.
//
// Any number of threads gives the same bits. Blocks depend only on the shape and the length of the
// sample. One thread sums a block, and the sums of blocks are added in their order. The number of
// threads changes which thread computes a block, but no sum.
#include "tost/kernels/tssa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/tssa.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/rows-inl.h"

#ifndef TOST_KERNELS_TSSA_CC_
#define TOST_KERNELS_TSSA_CC_
namespace tost::kernels {

// The arguments of a pass over one block of a sample's tokens. Channel arrays are [C], head arrays
// [H]; a pass uses the fields named in its comment.
struct TssaBlock {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t width = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  const void* g = nullptr;  // grad_y
  int64_t g_stride = 0;
  Written out;  // y or grad_w
  const float* temp = nullptr;
  const float* inv_norm = nullptr;     // 1 / max(sqrt(E), 1e-12)
  const float* damping = nullptr;      // D
  const float* moment_grad = nullptr;  // dS / (N + 1e-8)
  const float* pull = nullptr;         // sum_j da v^2, 0 where the clamp binds
  const float* pi_offset = nullptr;    // sum_i dS S / (N + 1e-8), per head
  const float* pi = nullptr;           // row of head k starts at k * row_stride
  float* pi_out = nullptr;             // rows alike
  const float* grad_pi = nullptr;      // rows alike, may be null
  float* logit_grad = nullptr;         // da, rows alike
  int64_t row_stride = 0;
  float* channel_sum = nullptr;  // result of the block, overwritten
  float* head_sum = nullptr;     // result of the block, overwritten
  float* scratch = nullptr;      // [4, H, kTokenGroup]
};

struct TssaPasses {
  using Pass = void (*)(const TssaBlock&);
  Pass energy;           // channel_sum = sum_j w^2
  Pass membership;       // pi; channel_sum = sum_j pi w^2; head_sum = sum_j pi
  Pass output;           // out = -(w pi D)
  Pass grad_moment;      // channel_sum = sum_j g w pi
  Pass grad_membership;  // logit_grad; channel_sum = sum_j da v^2; head_sum = dtemp
  Pass grad_input;       // out = grad_w
};

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// ---- Forward ----

template <class T>
void energy_pass(const TssaBlock& b) {
  const int64_t channels = b.heads * b.width, stride = b.w_stride;
  float* const sum = b.channel_sum;
  std::fill_n(sum, channels, 0.0f);
  for (int64_t t0 = 0; t0 < b.tokens; t0 += kTokenGroup) {
    const T* rows = static_cast<const T*>(b.w) + t0 * stride;
    const int64_t count = std::min(kTokenGroup, b.tokens - t0);
    over_row(channels, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
      auto total = hn::Zero(Wide());
      const T* p = rows + i;
      for (int64_t t = 0; t < count; ++t, p += stride) {
        prefetch_next_group(p, stride);
        const auto x = load_part<partial>(p, lanes);
        total = hn::MulAdd(x, x, total);
      }
      store_part<partial>(hn::Add(load_part<partial>(sum + i, lanes), total), sum + i, lanes);
    });
  }
}

// Computes a[t] = sum_i (w r)^2 for the rows of a group, over the channels of one head from c on.
template <class W>
HWY_INLINE void membership_logits(const W& w, int64_t c, int64_t width, const float* inv_norm,
                                  float* a) {
  const Wide d;
  for (int64_t first = 0; first < kTokenGroup; first += 4) {
    WideVec total[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    over_row(width, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
      const auto r = load_part<partial>(inv_norm + i, lanes);
#pragma GCC unroll 4
      for (int64_t t = 0; t < 4; ++t) {
        const auto* p = w.at(first + t, c + i);
        prefetch_next_group(p, w.stride);
        const auto v = hn::Mul(load_part<partial>(p, lanes), r);
        total[t] = hn::MulAdd(v, v, total[t]);
      }
    });
    sum_lanes_of_four(total[0], total[1], total[2], total[3], a + first);
  }
}

template <class T>
void membership_pass(const TssaBlock& b) {
  const int64_t size = b.heads * kTokenGroup;
  float* const a = b.scratch;                // logits, then memberships [H, kTokenGroup]
  float* const pi_lanes = b.scratch + size;  // running sums of memberships, alike
  std::fill_n(b.scratch, 2 * size, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  over_groups(b.tokens, [&](auto full, int64_t t0, int64_t count) TOST_INLINE {
    const Rows<T, full> w(b.w, b.w_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      membership_logits(w, c, b.width, b.inv_norm + c, a + k * kTokenGroup);
    }
    softmax_over_heads(b.temp, b.heads, a);
    for (int64_t k = 0; k < b.heads; ++k) {
      float* pi = a + k * kTokenGroup;
      for (int64_t t = full ? kTokenGroup : count; t < kTokenGroup; ++t) pi[t] = 0.0f;
      store_group<full>(pi, count, b.pi_out + k * b.row_stride + t0);
      for (int64_t t = 0; t < kTokenGroup; ++t) pi_lanes[k * kTokenGroup + t] += pi[t];
      const Weights weights(pi);
      const int64_t c = k * b.width;
      add_group(b.width, b.channel_sum + c,
                [&](auto partial, int64_t t, int64_t i, int64_t lanes, WideVec total) TOST_INLINE {
                  const auto x = load_part<partial>(w.at(t, c + i), lanes);
                  return hn::MulAdd(hn::Mul(x, weights.of[t]), x, total);
                });
    }
  });
  sum_groups(pi_lanes, b.heads, b.head_sum);
}

// Calls rows(by row, stream, first, count) for single rows or groups of rows. Writing single rows
// fills cache lines one after another, which streaming stores need. Groups of rows load the channel
// arrays once a group, which is faster for odd widths and for bfloat16 in cache.
template <class T, class WriteRows>
HWY_INLINE void write_block(const TssaBlock& b, const WriteRows& rows) {
  const std::true_type yes;
  const std::false_type no;
  if (can_stream<T>(b.out, b.width, b.heads * b.width)) {
    for (int64_t t = 0; t < b.tokens; ++t) rows(yes, yes, t, 1);
    hwy::FlushStream();
  } else if (sizeof(T) == sizeof(float) && whole_vectors(b.width)) {
    for (int64_t t = 0; t < b.tokens; ++t) rows(yes, no, t, 1);
  } else {
    for (int64_t t = 0; t < b.tokens; t += kTokenGroup) {
      rows(no, no, t, std::min(kTokenGroup, b.tokens - t));
    }
  }
}

// Writes y of `count` rows from `first` on. The function is not inlined, so that its loop has all
// registers. Local copies tell the compiler that no store changes the arguments.
template <class T, bool kByRow, bool kStream>
HWY_NOINLINE void output_rows(const TssaBlock& b, int64_t first, int64_t count) {
  const int64_t width = b.width, row_stride = b.row_stride;
  const int64_t w_stride = b.w_stride, out_stride = b.out.stride;
  const T* w = static_cast<const T*>(b.w) + first * w_stride;
  T* out = static_cast<T*>(b.out.data) + first * out_stride;
  const float *pi = b.pi + first, *damping = b.damping;
  for (int64_t k = b.heads; k > 0; --k) {
    const RowWeights<kByRow> weights(pi);
    over_row<kByRow>(width, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
      const auto damp = hn::Neg(load_part<partial>(damping + i, lanes));
      for (int64_t t = 0; t < (kByRow ? 1 : count); ++t) {
        prefetch_row<kByRow ? 2 : kTokenGroup>(w + t * w_stride + i, w_stride);
        const auto x = load_part<partial>(w + t * w_stride + i, lanes);
        const auto y = hn::Mul(hn::Mul(x, weights[t]), damp);
        write_part<partial, kStream>(y, out + t * out_stride + i, lanes);
      }
    });
    w += width, out += width, damping += width, pi += row_stride;
  }
}

template <class T>
void output_pass(const TssaBlock& b) {
  write_block<T>(b, [&](auto by_row, auto stream, int64_t first, int64_t count)
                        TOST_INLINE { output_rows<T, by_row, stream>(b, first, count); });
}

// ---- Backward ----

template <class T>
void grad_moment_pass(const TssaBlock& b) {
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  over_groups(b.tokens, [&](auto full, int64_t t0, int64_t count) TOST_INLINE {
    const Rows<T, full> w(b.w, b.w_stride, t0, count), g(b.g, b.g_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      float pi[kTokenGroup];
      load_group<full>(b.pi + k * b.row_stride + t0, count, pi);
      const Weights weights(pi);
      add_group(b.width, b.channel_sum + c,
                [&](auto partial, int64_t t, int64_t i, int64_t lanes, WideVec total) TOST_INLINE {
                  const T *x = w.at(t, c + i), *y = g.at(t, c + i);
                  prefetch_next_group(x, w.stride);
                  prefetch_next_group(y, g.stride);
                  const auto weighted = hn::Mul(load_part<partial>(y, lanes), weights.of[t]);
                  return hn::MulAdd(weighted, load_part<partial>(x, lanes), total);
                });
    }
  });
}

// Computes logit = sum_i (w r)^2 and slope = sum_i w (w dS / N - g D) of a head and group of rows.
template <class W>
HWY_INLINE void membership_slopes(const TssaBlock& b, const W& w, const W& g, int64_t k,
                                  float* logit, float* slope) {
  const Wide d;
  const int64_t c = k * b.width;
  const float *inv_norm = b.inv_norm + c, *damping = b.damping + c, *pulls = b.moment_grad + c;
  for (int64_t first = 0; first < kTokenGroup; first += 4) {
    WideVec a[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    WideVec s[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    over_row(b.width, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
      const auto r = load_part<partial>(inv_norm + i, lanes);
      const auto damp = load_part<partial>(damping + i, lanes);
      const auto pull = load_part<partial>(pulls + i, lanes);
#pragma GCC unroll 4
      for (int64_t t = 0; t < 4; ++t) {
        const auto *of_w = w.at(first + t, c + i), *of_g = g.at(first + t, c + i);
        prefetch_next_group(of_w, w.stride);
        prefetch_next_group(of_g, g.stride);
        const auto x = load_part<partial>(of_w, lanes);
        const auto v = hn::Mul(x, r);
        a[t] = hn::MulAdd(v, v, a[t]);
        const auto y = load_part<partial>(of_g, lanes);
        s[t] = hn::MulAdd(x, hn::MulSub(x, pull, hn::Mul(y, damp)), s[t]);
      }
    });
    sum_lanes_of_four(a[0], a[1], a[2], a[3], logit + first);
    sum_lanes_of_four(s[0], s[1], s[2], s[3], slope + first);
  }
  for (int64_t t = 0; t < kTokenGroup; ++t) slope[t] -= b.pi_offset[k];
}

// Replaces dPi in `slope` by da = temp Pi (dPi - sum_k Pi dPi), with tokens in lanes; temp_lanes +=
// dlogit a. Missing tokens have Pi = 0.
HWY_INLINE void through_softmax(const TssaBlock& b, const float* pi, const float* logit,
                                float* slope, float* temp_lanes) {
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

template <class T>
void grad_membership_pass(const TssaBlock& b) {
  const int64_t size = b.heads * kTokenGroup;
  float* const logit = b.scratch;       // a [H, kTokenGroup]
  float* const slope = logit + size;    // dPi, then da
  float* const pi = slope + size;       // Pi
  float* const temp_lanes = pi + size;  // running sums of dlogit a
  std::fill_n(temp_lanes, size, 0.0f);
  std::fill_n(b.channel_sum, b.heads * b.width, 0.0f);
  over_groups(b.tokens, [&](auto full, int64_t t0, int64_t count) TOST_INLINE {
    const Rows<T, full> w(b.w, b.w_stride, t0, count), g(b.g, b.g_stride, t0, count);
    for (int64_t k = 0; k < b.heads; ++k) {
      float* const of_head = slope + k * kTokenGroup;
      membership_slopes(b, w, g, k, logit + k * kTokenGroup, of_head);
      load_group<full>(b.pi + k * b.row_stride + t0, count, pi + k * kTokenGroup);
      if (b.grad_pi == nullptr) continue;
      float extra[kTokenGroup];
      load_group<full>(b.grad_pi + k * b.row_stride + t0, count, extra);
      for (int64_t t = 0; t < kTokenGroup; ++t) of_head[t] += extra[t];
    }
    through_softmax(b, pi, logit, slope, temp_lanes);
    for (int64_t k = 0; k < b.heads; ++k) {
      const int64_t c = k * b.width;
      const float* da = slope + k * kTokenGroup;
      store_group<full>(da, count, b.logit_grad + k * b.row_stride + t0);
      const Weights weights(da);
      add_group(b.width, b.channel_sum + c,
                [&](auto partial, int64_t t, int64_t i, int64_t lanes, WideVec total) TOST_INLINE {
                  const auto r = load_part<partial>(b.inv_norm + c + i, lanes);
                  const auto v = hn::Mul(load_part<partial>(w.at(t, c + i), lanes), r);
                  return hn::MulAdd(hn::Mul(v, weights.of[t]), v, total);
                });
    }
  });
  sum_groups(temp_lanes, b.heads, b.head_sum);
}

// Writes grad_w = pi (2 w dS / N - g D) + 2 r v (da - pull) of `count` rows from `first` on. The
// function is not inlined, so that its loop has all registers.
template <class T, bool kByRow, bool kStream>
HWY_NOINLINE void input_grad_rows(const TssaBlock& b, int64_t first, int64_t count) {
  const int64_t w_stride = b.w_stride, g_stride = b.g_stride, out_stride = b.out.stride;
  for (int64_t k = 0; k < b.heads; ++k) {
    const int64_t c = k * b.width;
    const T* w = static_cast<const T*>(b.w) + first * w_stride + c;
    const T* g = static_cast<const T*>(b.g) + first * g_stride + c;
    T* out = static_cast<T*>(b.out.data) + first * out_stride + c;
    const float *inv_norm = b.inv_norm + c, *damping = b.damping + c;
    const float *moment_grad = b.moment_grad + c, *pull = b.pull + c;
    const RowWeights<kByRow> pi(b.pi + k * b.row_stride + first);
    const RowWeights<kByRow> logit_grad(b.logit_grad + k * b.row_stride + first);
    over_row<kByRow>(b.width, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
      const auto r = load_part<partial>(inv_norm + i, lanes);
      const auto twice_r = hn::Add(r, r);
      const auto damp = load_part<partial>(damping + i, lanes);
      const auto half_slope = load_part<partial>(moment_grad + i, lanes);
      const auto slope = hn::Add(half_slope, half_slope);
      const auto mean = load_part<partial>(pull + i, lanes);
      for (int64_t t = 0; t < (kByRow ? 1 : count); ++t) {
        prefetch_row<kByRow ? 2 : kTokenGroup>(w + t * w_stride + i, w_stride);
        prefetch_row<kByRow ? 2 : kTokenGroup>(g + t * g_stride + i, g_stride);
        const auto x = load_part<partial>(w + t * w_stride + i, lanes);
        const auto y = load_part<partial>(g + t * g_stride + i, lanes);
        const auto through_moment = hn::MulSub(x, slope, hn::Mul(y, damp));
        const auto da = hn::Sub(logit_grad[t], mean);
        const auto through_logit = hn::Mul(hn::Mul(x, r), hn::Mul(twice_r, da));
        const auto grad = hn::MulAdd(pi[t], through_moment, through_logit);
        write_part<partial, kStream>(grad, out + t * out_stride + i, lanes);
      }
    });
  }
}

template <class T>
void grad_input_pass(const TssaBlock& b) {
  write_block<T>(b, [&](auto by_row, auto stream, int64_t first, int64_t count)
                        TOST_INLINE { input_grad_rows<T, by_row, stream>(b, first, count); });
}

template <class T>
constexpr TssaPasses kPasses = {&energy_pass<T>,
                                &membership_pass<T>,
                                &output_pass<T>,
                                TOST_GRADIENT(grad_moment_pass<T>),
                                TOST_GRADIENT(grad_membership_pass<T>),
                                TOST_GRADIENT(grad_input_pass<T>)};

inline const TssaPasses& tssa_passes(DType dtype) {
  return dtype == DType::kBfloat16 ? kPasses<Bf16> : kPasses<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// ---- Schedule ----

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(tssa_passes);

// The common part of forward and backward: the division into blocks, and the arguments of passes.
template <class Args>
class TssaRun {
 public:
  int64_t workspace_bytes() const { return arena_.used(); }

 protected:
  TssaRun(const Args& args, const Tokens& out, void* workspace)
      : args_(args),
        shape_(args.shape),
        out_(out),
        cut_(shape_),
        channels_(shape_.channels()),
        arena_(workspace),
        bytes_(shape_.tokens * channels_ * element_size(args.dtype)) {
    const int64_t batch = shape_.batch;
    channel_parts_ = arena_.take<float>(batch * cut_.blocks * channels_);
    head_parts_ = arena_.take<float>(batch * cut_.blocks * shape_.heads);
    inv_norm_ = arena_.take<float>(batch * channels_);
    damping_ = arena_.take<float>(batch * channels_);
    scratch_ = arena_.take<float>(batch * cut_.blocks * cut_.scratch);
  }

  TokenCut valid(int64_t sample) const { return cut_.valid(args_.lengths, sample); }

  TssaBlock block(int64_t sample, int64_t part, const TokenCut& cut) const {
    const int64_t first = part * cut.block_tokens;
    const int64_t index = sample * cut_.blocks + part;
    TssaBlock b;
    b.tokens = std::min(cut.block_tokens, cut.tokens - first);
    b.heads = shape_.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, sample, first);
    b.w_stride = args_.w.token_stride;
    b.out = {row(out_, args_.dtype, sample, first), out_.token_stride,
             worth_streaming(shape_.batch * bytes_)};
    b.temp = args_.temp;
    b.inv_norm = inv_norm_ + sample * channels_;
    b.damping = damping_ + sample * channels_;
    b.row_stride = shape_.tokens;
    b.channel_sum = channel_parts_ + index * channels_;
    b.head_sum = head_parts_ + index * shape_.heads;
    b.scratch = scratch_ + index * cut_.scratch;
    return b;
  }
  // The index of a block's first token in the rows [H, N] of a sample.
  int64_t rows_at(int64_t sample, int64_t part, const TokenCut& cut) const {
    return sample * shape_.heads * shape_.tokens + part * cut.block_tokens;
  }

  // Sums channels of the heads [first, last) over the blocks of a sample.
  void sum_channels(int64_t sample, int64_t first, int64_t last, float* out) const {
    sum_blocks(channel_parts_ + sample * cut_.blocks * channels_, valid(sample).blocks, channels_,
               first * shape_.width, last * shape_.width, out);
  }
  int64_t first_head(int64_t chunk) const { return chunk * cut_.chunk_heads; }
  int64_t last_head(int64_t chunk) const {
    return std::min(shape_.heads, (chunk + 1) * cut_.chunk_heads);
  }

  const Args& args_;
  const TssaShape& shape_;
  const Tokens& out_;
  const CallCut cut_;
  const int64_t channels_;
  Arena arena_;
  const int64_t bytes_;  // of a sample
  const TssaPasses* passes_ = nullptr;
  float* channel_parts_;  // [B, blocks, C]: of E or G, then of S or sum da v^2
  float* head_parts_;     // [B, blocks, H]: of N or grad_temp
  float* inv_norm_;       // [B, C]
  float* damping_;        // [B, C]
  float* scratch_;        // [B, blocks, scratch]
};

class ForwardRun : public TssaRun<TssaForwardArgs> {
 public:
  ForwardRun(const TssaForwardArgs& args, void* workspace) : TssaRun(args, args.y, workspace) {
    const int64_t batch = shape_.batch;
    const auto caller_or_arena = [&](float* buffer, int64_t count) {
      return buffer != nullptr ? buffer : arena_.take<float>(count);
    };
    energy_ = caller_or_arena(args.energy, batch * channels_);
    moment_ = caller_or_arena(args.moment, batch * channels_);
    pi_sum_ = caller_or_arena(args.pi_sum, batch * shape_.heads);
    pi_ = caller_or_arena(args.pi, batch * shape_.heads * shape_.tokens);
  }

  void run(ParallelFor parallel, int threads) {
    passes_ = &TOST_DISPATCH(tssa_passes)(args_.dtype);
    const Phase<ForwardRun> phases[] = {
        {cut_.blocks, &ForwardRun::step<&TssaPasses::energy>},
        {cut_.chunks, &ForwardRun::finish_energy, cut_.light_reductions},
        {.parts = cut_.blocks,
         .step = &ForwardRun::step<&TssaPasses::membership>,
         .backwards = true},
        {cut_.chunks, &ForwardRun::finish_moment, cut_.light_reductions},
        {cut_.blocks, &ForwardRun::output}};
    run_phases(*this, phases, shape_.batch, bytes_, parallel, threads);
  }

 private:
  // Runs a pass over a block unless the block has only padding.
  template <TssaPasses::Pass TssaPasses::*kPass>
  void step(int64_t sample, int64_t part) const {
    const WorkTimer timer(Work::kMixing);
    const TokenCut cut = valid(sample);
    if (part >= cut.blocks) return;
    TssaBlock b = block(sample, part, cut);
    b.pi = b.pi_out = pi_ + rows_at(sample, part, cut);
    (passes_->*kPass)(b);
  }

  void output(int64_t sample, int64_t part) const {
    step<&TssaPasses::output>(sample, part);
    const TokenCut cut = valid(sample);
    if (cut.tokens == shape_.tokens) return;
    const PaddingRange padding(cut_.whole, cut.tokens, part);
    clear_tokens(args_.y, args_.dtype, sample, padding, channels_);
    float* pi = pi_ + sample * shape_.heads * shape_.tokens + padding.first;
    for (int64_t k = 0; k < shape_.heads; ++k, pi += shape_.tokens) {
      std::fill_n(pi, padding.count, 0.0f);
    }
  }

  void finish_energy(int64_t sample, int64_t chunk) const {
    const int64_t first = first_head(chunk), last = last_head(chunk);
    float* energy = energy_ + sample * channels_;
    sum_channels(sample, first, last, energy);
    for (int64_t c = first * shape_.width; c < last * shape_.width; ++c) {
      inv_norm_[sample * channels_ + c] = inverse_norm(energy[c]);
    }
  }

  void finish_moment(int64_t sample, int64_t chunk) const {
    const int64_t first = first_head(chunk), last = last_head(chunk);
    float* pi_sum = pi_sum_ + sample * shape_.heads;
    float* moment = moment_ + sample * channels_;
    sum_blocks(head_parts_ + sample * cut_.blocks * shape_.heads, valid(sample).blocks,
               shape_.heads, first, last, pi_sum);
    sum_channels(sample, first, last, moment);
    for (int64_t k = first; k < last; ++k) {
      const float weight = pi_sum[k] + 1e-8f;
      for (int64_t c = k * shape_.width; c < (k + 1) * shape_.width; ++c) {
        moment[c] /= weight;
        damping_[sample * channels_ + c] = 1.0f / (1.0f + moment[c]);
      }
    }
  }

  float* energy_;  // [B, C]
  float* moment_;  // [B, C]
  float* pi_sum_;  // [B, H]
  float* pi_;      // [B, H, N]
};

// The backward pass: takes memberships from the forward pass and computes all else again.
class BackwardRun : public TssaRun<TssaBackwardArgs> {
 public:
  BackwardRun(const TssaBackwardArgs& args, void* workspace)
      : TssaRun(args, args.grad_w, workspace) {
    const int64_t batch = shape_.batch;
    moment_grad_ = arena_.take<float>(batch * channels_);
    pull_ = arena_.take<float>(batch * channels_);
    pi_offset_ = arena_.take<float>(batch * shape_.heads);
    logit_grad_ = arena_.take<float>(batch * shape_.heads * shape_.tokens);
  }

  void run(ParallelFor parallel, int threads) {
    passes_ = &TOST_DISPATCH(tssa_passes)(args_.dtype);
    const Phase<BackwardRun> phases[] = {
        {cut_.blocks, &BackwardRun::step<&TssaPasses::grad_moment>},
        {cut_.chunks, &BackwardRun::finish_moment, cut_.light_reductions},
        {.parts = cut_.blocks, .step = &BackwardRun::grad_membership, .backwards = true},
        {cut_.chunks, &BackwardRun::finish_pull, cut_.light_reductions},
        {cut_.blocks, &BackwardRun::grad_input}};
    run_phases(*this, phases, shape_.batch, 2 * bytes_, parallel, threads);
    sum_blocks(head_parts_, shape_.batch * cut_.blocks, shape_.heads, 0, shape_.heads,
               args_.grad_temp);
  }

 private:
  template <TssaPasses::Pass TssaPasses::*kPass>
  void step(int64_t sample, int64_t part) const {
    const TokenCut cut = valid(sample);
    if (part >= cut.blocks) return;
    const int64_t rows = rows_at(sample, part, cut);
    TssaBlock b = block(sample, part, cut);
    b.g = row(args_.grad_y, args_.dtype, sample, part * cut.block_tokens);
    b.g_stride = args_.grad_y.token_stride;
    b.moment_grad = moment_grad_ + sample * channels_;
    b.pull = pull_ + sample * channels_;
    b.pi_offset = pi_offset_ + sample * shape_.heads;
    b.pi = args_.pi + rows;
    b.grad_pi = args_.grad_pi == nullptr ? nullptr : args_.grad_pi + rows;
    b.logit_grad = logit_grad_ + rows;
    (passes_->*kPass)(b);
  }

  void grad_membership(int64_t sample, int64_t part) const {
    step<&TssaPasses::grad_membership>(sample, part);
    if (part < valid(sample).blocks) return;
    float* grad_temp = head_parts_ + (sample * cut_.blocks + part) * shape_.heads;
    std::fill_n(grad_temp, shape_.heads, 0.0f);  // a block of padding adds nothing
  }
  void grad_input(int64_t sample, int64_t part) const {
    step<&TssaPasses::grad_input>(sample, part);
    const int64_t tokens = valid(sample).tokens;
    if (tokens == shape_.tokens) return;
    clear_tokens(args_.grad_w, args_.dtype, sample, {cut_.whole, tokens, part}, channels_);
  }

  void finish_moment(int64_t sample, int64_t chunk) const {
    const int64_t first = first_head(chunk), last = last_head(chunk);
    const int64_t at = sample * channels_;
    float* grad = moment_grad_ + at;
    sum_channels(sample, first, last, grad);
    for (int64_t k = first; k < last; ++k) {
      const float weight = args_.pi_sum[sample * shape_.heads + k] + 1e-8f;
      double offset = 0.0;
      for (int64_t c = k * shape_.width; c < (k + 1) * shape_.width; ++c) {
        const float damping = 1.0f / (1.0f + args_.moment[at + c]);
        inv_norm_[at + c] = inverse_norm(args_.energy[at + c]);
        damping_[at + c] = damping;
        grad[c] = grad[c] * damping * damping / weight;
        offset += static_cast<double>(grad[c]) * args_.moment[at + c];
      }
      pi_offset_[sample * shape_.heads + k] = static_cast<float>(offset);
    }
  }

  void finish_pull(int64_t sample, int64_t chunk) const {
    const int64_t first = first_head(chunk), last = last_head(chunk);
    const int64_t at = sample * channels_;
    sum_channels(sample, first, last, pull_ + at);
    for (int64_t c = first * shape_.width; c < last * shape_.width; ++c) {
      if (norm_is_clamped(args_.energy[at + c])) pull_[at + c] = 0.0f;
    }
  }

  float* moment_grad_;  // [B, C]
  float* pull_;         // [B, C]
  float* pi_offset_;    // [B, H]
  float* logit_grad_;   // [B, H, N]
};

}  // namespace

int64_t tssa_forward_workspace(const TssaForwardArgs& args) {
  return ForwardRun(args, nullptr).workspace_bytes();
}
int64_t tssa_backward_workspace(const TssaBackwardArgs& args) {
  return BackwardRun(args, nullptr).workspace_bytes();
}

void tssa_forward(const TssaForwardArgs& args, void* workspace, ParallelFor parallel, int threads) {
  ForwardRun(args, workspace).run(parallel, threads);
}
void tssa_backward(const TssaBackwardArgs& args, void* workspace, ParallelFor parallel,
                   int threads) {
  BackwardRun(args, workspace).run(parallel, threads);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
