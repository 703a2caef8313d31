// What the passes share: groups of token rows, walks over channels, sums that keep their order.
#if defined(TOST_KERNELS_TSSA_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_TSSA_ROWS_INL_H_
#undef TOST_KERNELS_TSSA_ROWS_INL_H_
#else
#define TOST_KERNELS_TSSA_ROWS_INL_H_
#endif

#include <algorithm>

#include "tost/kernels/schedule.h"
#include "tost/kernels/tssa_passes.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;              // lanes are channels
using Group = hn::CappedTag<float, kTokenGroup>;  // lanes are tokens
using WideVec = hn::Vec<Wide>;

// Walks n channels in whole vectors and, unless kWhole says that there is none, a partial one:
// body.run<kPartial>(offset, lanes).
template <bool kWhole = false, class Body>
HWY_INLINE void for_each_vector(int64_t n, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body.template run<false>(i, lanes);
  if constexpr (!kWhole) {
    if (i < n) body.template run<true>(i, n - i);
  }
}

// Asks for the row kRows further on, into the L2 cache. May point past the end; nothing
// is read there.
template <int64_t kRows, class T>
HWY_INLINE void prefetch_row(const T* p, int64_t stride) {
  __builtin_prefetch(p + kRows * stride, /*write=*/0, /*locality=*/2);
}
// Eight short rows at a time are more streams than hardware prefetchers follow: from memory this
// saves a fifth of the time, in cache it costs a tenth.
template <class T>
HWY_INLINE void prefetch_next_group(const T* p, int64_t stride) {
  prefetch_row<kTokenGroup>(p, stride);
}

// A group of kTokenGroup rows. At the end of a block it may hold fewer (kFull false); the rows that
// are missing repeat the last one, and the caller sums them with weight 0.
template <class T, bool kFull>
struct Rows {
  const T* base;
  int64_t stride;
  int64_t count;

  HWY_INLINE const T* operator[](int64_t t) const {
    return base + (kFull ? t : std::min(t, count - 1)) * stride;
  }
  HWY_INLINE Rows shifted(int64_t channels) const { return {base + channels, stride, count}; }
};

// The rows of tokens [t0, t0 + count) of w or grad_y, and of the result.
template <class T, bool kFull>
HWY_INLINE Rows<T, kFull> rows_of(const void* data, int64_t stride, int64_t t0, int64_t count) {
  return {static_cast<const T*>(data) + t0 * stride, stride, count};
}

// Calls body.group<kFull>(t0, count) over the tokens of a block.
template <class Body>
HWY_INLINE void for_each_group(int64_t tokens, const Body& body) {
  int64_t t = 0;
  for (; t + kTokenGroup <= tokens; t += kTokenGroup) body.template group<true>(t, kTokenGroup);
  if (t < tokens) body.template group<false>(t, tokens - t);
}

// One weight per row of a group, spread over all lanes.
struct Weights {
  WideVec of[kTokenGroup];

  HWY_INLINE explicit Weights(const float* weight) {
    for (int64_t t = 0; t < kTokenGroup; ++t) of[t] = hn::Set(Wide(), weight[t]);
  }
};

// sum[c] += sum over the rows of a group of weight * term, for the channels of one head.
template <class Term>
struct AddWeighted {
  Term term;
  const Weights& weights;
  float* sum;

  template <bool kPartial>
  HWY_INLINE void run(int64_t i, int64_t lanes) const {
    const Wide d;
    auto total = hn::Zero(d);
#pragma GCC unroll 8
    for (int64_t t = 0; t < kTokenGroup; ++t) {
      total = term.template add<kPartial>(i, t, lanes, weights.of[t], total);
    }
    total = hn::Add(load_lanes<kPartial>(d, sum + i, lanes), total);
    store_lanes<kPartial>(d, total, sum + i, lanes);
  }
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sum_lanes_of_four(WideVec a, WideVec b, WideVec c, WideVec e, float* sums) {
  sums[0] = hn::GetLane(a);
  sums[1] = hn::GetLane(b);
  sums[2] = hn::GetLane(c);
  sums[3] = hn::GetLane(e);
}
#else
// to[0..3] = the sum of the 128-bit blocks of v.
template <class D>
HWY_INLINE void store_block_sum(D d, VecOf<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> dh;
    store_block_sum(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)), to);
  }
}

// sums[0..3] = the sums of the lanes of a, b, c, e. Four at once take 13 instructions where one
// takes 8.
HWY_INLINE void sum_lanes_of_four(WideVec a, WideVec b, WideVec c, WideVec e, float* sums) {
  const Wide d;
  const hn::RepartitionToWide<Wide> pairs;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  const auto blocks = hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));  // a b c e in every block
  store_block_sum(d, blocks, sums);
}
#endif

// sums[k] = sum of the kTokenGroup running sums of head k, in a fixed order.
HWY_INLINE void sum_groups(const float* lanes, int64_t heads, float* sums) {
  for (int64_t k = 0; k < heads; ++k) {
    const float* p = lanes + k * kTokenGroup;
    sums[k] = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
  }
}

// Between rows of [H, N] arrays and the groups [H, kTokenGroup] the passes work on.
template <bool kFull>
HWY_INLINE void load_group(const float* from, int64_t count, float* to) {
  for (int64_t t = 0; t < kTokenGroup; ++t) to[t] = kFull || t < count ? from[t] : 0.0f;
}
template <bool kFull>
HWY_INLINE void store_group(const float* from, int64_t count, float* to) {
  for (int64_t t = 0; t < (kFull ? kTokenGroup : count); ++t) to[t] = from[t];
}

// A weight for each row of a group, or of one row, which is spread over all lanes beforehand.
template <bool kByRow>
struct RowWeights {
  const float* weight;
  WideVec first;

  HWY_INLINE explicit RowWeights(const float* weight)
      : weight(weight), first(hn::Set(Wide(), weight[0])) {}
  HWY_INLINE WideVec operator[](int64_t t) const {
    if constexpr (kByRow) return first;
    return hn::Set(Wide(), weight[t]);
  }
};

// Writes results, past the caches if kStream.
template <bool kPartial, bool kStream, class T>
HWY_INLINE void write_lanes(WideVec value, T* p, int64_t lanes) {
  if constexpr (kStream && !kPartial) {
    store_past(Wide(), value, p);
  } else {
    store_lanes<kPartial>(Wide(), value, p, lanes);
  }
}

HWY_INLINE bool whole_vectors(int64_t width) {
  return width % static_cast<int64_t>(hn::Lanes(Wide())) == 0;
}

// Whether the results of a block may go past the caches, if `run` channels are written one after
// another. There is no streaming store of less than 16 bytes.
template <class T, class Block>
HWY_INLINE bool can_stream(const Block& b, int64_t run) {
  const int64_t size = sizeof(T);
  return b.stream && static_cast<int64_t>(hn::Lanes(Wide())) * size >= 16 &&
         whole_vectors(b.width) && fills_lines(b.out, b.out_stride * size, run * size);
}

template <bool kByRow, bool kStream, class Write>
HWY_INLINE void write_tokens(int64_t tokens, const Write& write) {
  constexpr int64_t kRows = kByRow ? 1 : kTokenGroup;
  for (int64_t t = 0; t < tokens; t += kRows) {
    write.template rows<kByRow, kStream>(t, std::min(kRows, tokens - t));
  }
}

// Calls write.rows<by row, stream>(t, count) over the tokens of a block. Row by row it fills one
// cache line of the result after another, as streaming stores need it, and reads in the order of
// memory. By groups of rows it loads the channel arrays once a group: better where loading them is
// dear, as a part of a vector is, and for bfloat16 in cache, where arithmetic decides.
template <class T, class Write>
HWY_INLINE void write_block(const TssaBlock& b, const Write& write) {
  if (can_stream<T>(b, b.heads * b.width)) {
    write_tokens<true, true>(b.tokens, write);
    hwy::FlushStream();
  } else if (sizeof(T) == sizeof(float) && whole_vectors(b.width)) {
    write_tokens<true, false>(b.tokens, write);
  } else {
    write_tokens<false, false>(b.tokens, write);
  }
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
