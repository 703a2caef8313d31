// Helpers of kernels with sums over tokens: groups of rows, running sums of tiles of channels,
// softmax over heads, and sums whose order does not depend on the number of threads.
#if defined(TOST_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_ROWS_INL_H_
#undef TOST_KERNELS_ROWS_INL_H_
#else
#define TOST_KERNELS_ROWS_INL_H_
#endif

#include <algorithm>

#include "tost/kernels/schedule.h"
#include "tost/kernels/vec-inl.h"

// A pass that only gradients need, which a build that runs models alone leaves out.
#ifdef TOST_WITHOUT_GRADIENTS
#define TOST_GRADIENT(...) nullptr
#else
#define TOST_GRADIENT(...) &__VA_ARGS__
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Group = hn::CappedTag<float, kTokenGroup>;  // lanes are tokens; those of Wide are channels

// Prefetches the row kRows further on into the L2 cache. An address past the end is not read.
template <int64_t kRows, class T>
HWY_INLINE void prefetch_row(const T* p, int64_t stride) {
  __builtin_prefetch(p + kRows * stride, /*write=*/0, /*locality=*/2);
}
// Whether to prefetch short rows, because hardware prefetchers cannot follow eight streams. It
// saves a fifth of the time for rows in memory, and takes a tenth more for rows in cache.
template <class T>
HWY_INLINE void prefetch_next_group(const T* p, int64_t stride) {
  prefetch_row<kTokenGroup>(p, stride);
}

// A group of kTokenGroup rows. The last group of a block may have fewer rows (kFull false). Missing
// rows repeat the last row, and the caller sums them with weight 0.
template <class T, bool kFull>
struct Rows {
  const T* base;
  int64_t stride;
  int64_t count;

  HWY_INLINE Rows(const void* data, int64_t stride, int64_t first, int64_t count)
      : base(static_cast<const T*>(data) + first * stride), stride(stride), count(count) {}
  // From channel i on.
  HWY_INLINE const T* at(int64_t t, int64_t i) const {
    return base + (kFull ? t : std::min(t, count - 1)) * stride + i;
  }
};

// Calls body(full, first, count) for each group of a block's tokens; `full` is a constant.
template <class Body>
HWY_INLINE void over_groups(int64_t tokens, const Body& body) {
  int64_t t = 0;
  for (; t + kTokenGroup <= tokens; t += kTokenGroup) body(std::true_type(), t, kTokenGroup);
  if (t < tokens) body(std::false_type(), t, tokens - t);
}

// Adds term(partial, t, i, lanes, total) of each token t to sum[i]; the term adds to `total`.
template <class Term>
HWY_INLINE void add_group(int64_t channels, float* sum, const Term& term) {
  over_row(channels, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
    auto total = hn::Zero(Wide());
#pragma GCC unroll 8
    for (int64_t t = 0; t < kTokenGroup; ++t) total = term(partial, t, i, lanes, total);
    store_part<partial>(hn::Add(load_part<partial>(sum + i, lanes), total), sum + i, lanes);
  });
}

// One weight for each row of a group, in all lanes.
struct Weights {
  WideVec of[kTokenGroup];

  HWY_INLINE explicit Weights(const float* weight) {
    for (int64_t t = 0; t < kTokenGroup; ++t) of[t] = hn::Set(Wide(), weight[t]);
  }
};

// The weights of a group, or the weight of one row, which must be set before.
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

// Copies values between rows of [H, N] arrays and groups [H, kTokenGroup].
template <bool kFull>
HWY_INLINE void load_group(const float* from, int64_t count, float* to) {
  for (int64_t t = 0; t < kTokenGroup; ++t) to[t] = kFull || t < count ? from[t] : 0.0f;
}
template <bool kFull>
HWY_INLINE void store_group(const float* from, int64_t count, float* to) {
  for (int64_t t = 0; t < (kFull ? kTokenGroup : count); ++t) to[t] = from[t];
}

// Computes sums[0..3], the sums of the lanes of a, b, c, e.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sum_lanes_of_four(WideVec a, WideVec b, WideVec c, WideVec e, float* sums) {
  const float lanes[] = {hn::GetLane(a), hn::GetLane(b), hn::GetLane(c), hn::GetLane(e)};
  std::copy_n(lanes, 4, sums);
}
#else
// Computes to[0..3], the sum of the 128-bit blocks of v.
template <class D>
HWY_INLINE void store_block_sum(D d, VecOf<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> dh;
    store_block_sum(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)), to);
  }
}
// Adds the lanes of four vectors in 13 instructions; one vector takes 8.
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

// Computes sums[k], the sum of the kTokenGroup running sums of head k, in a fixed order.
HWY_INLINE void sum_groups(const float* lanes, int64_t heads, float* sums) {
  for (int64_t k = 0; k < heads; ++k) {
    const float* p = lanes + k * kTokenGroup;
    sums[k] = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
  }
}

// Replaces a [H, kTokenGroup] by the softmax over heads of temp[k] a[k][t], with tokens in lanes.
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

HWY_INLINE bool whole_vectors(int64_t width) {
  return width % static_cast<int64_t>(hn::Lanes(Wide())) == 0;
}

// Whether results may bypass the caches, if `run` channels are written one after another. Streaming
// stores have at least 16 bytes.
template <class T>
HWY_INLINE bool can_stream(const Written& out, int64_t width, int64_t run) {
  const int64_t size = sizeof(T);
  return out.stream && static_cast<int64_t>(hn::Lanes(Wide())) * size >= 16 &&
         whole_vectors(width) && fills_lines(out.data, out.stride * size, run * size);
}

constexpr int64_t kMaxLanes = hn::MaxLanes(Wide());
// The number of vectors of a running sum that stay in registers over the tokens. Each vector takes
// two registers, and the arithmetic needs the other registers.
constexpr int64_t kTileVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

// Calls body(vectors, partial, offset, lanes of the last vector) for each tile of n channels; the
// first two are constants.
template <class Body>
HWY_INLINE void over_tiles(int64_t n, const Body& body) {
  const std::integral_constant<int64_t, kTileVectors> whole;
  const std::integral_constant<int64_t, 1> one;
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t c = 0;
  for (; c + kTileVectors * size <= n; c += kTileVectors * size) {
    body(whole, std::false_type(), c, size);
  }
  for (; c + size <= n; c += size) body(one, std::false_type(), c, size);
  if (c < n) body(one, std::true_type(), c, n - c);
}
template <bool kPartial, int64_t kVectors>
HWY_INLINE void load_tile(const float* p, int64_t lanes, WideVec (&tile)[kVectors]) {
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide()));
  for (int64_t v = 0; v < kVectors; ++v) tile[v] = load_part<kPartial>(p + v * size, lanes);
}
template <bool kPartial, int64_t kVectors>
HWY_INLINE void store_tile(const WideVec (&tile)[kVectors], float* p, int64_t lanes) {
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide()));
  for (int64_t v = 0; v < kVectors; ++v) store_part<kPartial>(tile[v], p + v * size, lanes);
}

// Does the same as can_stream() for results that are written tile by tile; the vectors after the
// last whole tile are written one by one.
template <class T>
HWY_INLINE bool can_stream_tiles(const Written& out, int64_t width) {
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide())), tile = kTileVectors * size;
  return can_stream<T>(out, width, width % tile == 0 ? tile : size);
}

// Computes sums[t], the sum of the vector lanes[t], for t < count rounded up to 4.
HWY_INLINE void sum_lanes_of_tokens(const float* lanes, int64_t count, float* sums) {
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < count; t += 4) {
    const float* p = lanes + t * size;
    sum_lanes_of_four(hn::Load(d, p), hn::Load(d, p + size), hn::Load(d, p + 2 * size),
                      hn::Load(d, p + 3 * size), sums + t);
  }
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
