// What the causal passes share: walks over tiles of channels, reciprocals, lane sums, folding.
#if defined(TOST_KERNELS_CAUSAL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_CAUSAL_TILES_INL_H_
#undef TOST_KERNELS_CAUSAL_TILES_INL_H_
#else
#define TOST_KERNELS_CAUSAL_TILES_INL_H_
#endif

#include "tost/kernels/causal_passes.h"
#include "tost/kernels/tssa_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int64_t kMaxLanes = hn::MaxLanes(Wide());
// Vectors of a running sum that stay in registers over the tokens: half of what there are, at two a
// vector, less what the arithmetic takes.
constexpr int64_t kTileVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

// Walks n channels in tiles: body.run<vectors, partial>(offset, lanes of the last vector).
template <class Body>
HWY_INLINE void for_each_tile(int64_t n, const Body& body) {
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t c = 0;
  for (; c + kTileVectors * size <= n; c += kTileVectors * size)
    body.template run<kTileVectors, false>(c, size);
  for (; c + size <= n; c += size) body.template run<1, false>(c, size);
  if (c < n) body.template run<1, true>(c, n - c);
}

// can_stream() for results that are written tile by tile: where a head is not made of whole tiles,
// its last vectors are written one by one.
template <class T>
HWY_INLINE bool can_stream_tiles(const CausalBlock& b) {
  const int64_t size = static_cast<int64_t>(hn::Lanes(Wide()));
  const int64_t tile = kTileVectors * size;
  return can_stream<T>(b, b.width % tile == 0 ? tile : size);
}

// 1 / x for x > 0, within 2 ulp; as 1 / 8e37 for larger x. NaN gives NaN: x86 takes the second of
// the operands of Min and Max if either is NaN.
template <class D>
HWY_INLINE VecOf<D> reciprocal(D d, VecOf<D> x) {
#if HWY_TARGET == HWY_AVX3
  x = hn::Min(hn::Set(d, 8e37f), x);  // keeps the infinite from meeting its zero reciprocal
  const auto r = hn::ApproximateReciprocal(x);  // 14 bits
  return hn::MulAdd(r, hn::NegMulAdd(x, r, hn::Set(d, 1.0f)), r);
#else
  const auto largest = hn::Set(d, 8e37f);
  return hn::Div(hn::Set(d, 1.0f), hn::IfThenElse(hn::Gt(x, largest), largest, x));
#endif
}

// 1 / max(x, 1e-12), as above.
template <class D>
HWY_INLINE VecOf<D> inverse_energy(D d, VecOf<D> x) {
  const auto smallest = hn::Set(d, kSmallestEnergy);
#if HWY_TARGET == HWY_AVX3
  return reciprocal(d, hn::Max(smallest, x));
#else
  return reciprocal(d, hn::IfThenElse(hn::Lt(x, smallest), smallest, x));
#endif
}

// sums[t] = the sum of lanes[t], t < count rounded up to 4; rows are a vector long.
HWY_INLINE void sum_lanes_of_tokens(const float* lanes, int64_t count, float* sums) {
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < count; t += 4) {
    const float* p = lanes + t * size;
    sum_lanes_of_four(hn::Load(d, p), hn::Load(d, p + size), hn::Load(d, p + 2 * size),
                      hn::Load(d, p + 3 * size), sums + t);
  }
}

inline void fold(double* total, float* rest, float* base, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    total[i] += rest[i];
    base[i] = static_cast<float>(total[i]);
    rest[i] = 0.0f;
  }
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
