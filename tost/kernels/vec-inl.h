// Loads, stores and exp, compiled for each instruction set. Include after highway.h.
#if defined(TOST_KERNELS_VEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_VEC_INL_H_
#undef TOST_KERNELS_VEC_INL_H_
#else
#define TOST_KERNELS_VEC_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A stored bfloat16, which is the upper half of a float32.
struct Bf16 {
  uint16_t bits;
};

template <class D>
using VecOf = hn::Vec<D>;
template <class D>
using HalfWords = hn::Rebind<uint16_t, D>;

template <class D>
HWY_INLINE VecOf<D> widen(D d, hn::Vec<HalfWords<D>> bits) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

// Rounds to nearest even; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<HalfWords<D>> narrow(D d, VecOf<D> value) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  return hn::DemoteTo(HalfWords<D>(), hn::BitCast(di, high));
}

template <class D>
HWY_INLINE VecOf<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE VecOf<D> load(D d, const Bf16* p) {
  return widen(d, hn::LoadU(HalfWords<D>(), reinterpret_cast<const uint16_t*>(p)));
}
template <class D>
HWY_INLINE void store(D d, VecOf<D> value, float* p) {
  hn::StoreU(value, d, p);
}
template <class D>
HWY_INLINE void store(D d, VecOf<D> value, Bf16* p) {
  hn::StoreU(narrow(d, value), HalfWords<D>(), reinterpret_cast<uint16_t*>(p));
}

// Loads the first n lanes, then zeros, without an access to memory past p + n. Only targets with
// true masks use masked loads, because Highway 1.0.3 emulates them by full loads elsewhere.
template <class D, class T>
HWY_INLINE VecOf<D> load_first(D d, const T* p, size_t n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  } else {
    const HalfWords<D> dh;
    return widen(d, hn::MaskedLoad(hn::FirstN(dh, n), dh, reinterpret_cast<const uint16_t*>(p)));
  }
#else
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(d, lanes);
#endif
}
template <class D, class T>
HWY_INLINE void store_first(D d, VecOf<D> value, T* p, size_t n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    hn::BlendedStore(value, hn::FirstN(d, n), d, p);
    return;
  }
#endif
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  store(d, value, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
}

using Wide = hn::ScalableTag<float>;
using WideVec = hn::Vec<Wide>;

// Loads a whole vector, or its first n lanes.
template <bool kPartial, class T>
HWY_INLINE WideVec load_part(const T* p, int64_t n) {
  if constexpr (kPartial) return load_first(Wide(), p, static_cast<size_t>(n));
  return load(Wide(), p);
}
template <bool kPartial, class T>
HWY_INLINE void store_part(WideVec value, T* p, int64_t n) {
  if constexpr (kPartial) return store_first(Wide(), value, p, static_cast<size_t>(n));
  store(Wide(), value, p);
}
// Keeps the first n lanes, and sets the others to zero.
template <bool kPartial>
HWY_INLINE WideVec only_first(WideVec value, int64_t n) {
  if constexpr (kPartial) {
    return hn::IfThenElseZero(hn::FirstN(Wide(), static_cast<size_t>(n)), value);
  }
  return value;
}

// Compiles lambdas over vectors for the target, without the cost of a call.
#define TOST_INLINE HWY_ATTR __attribute__((always_inline))

// Calls body(partial, i, lanes) for each vector of n adjacent numbers: `partial` is a constant, and
// `lanes` is the number of lanes in use. With kWhole there is no partial vector.
template <bool kWhole = false, class Body>
HWY_INLINE void over_row(int64_t n, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(std::false_type(), i, lanes);
  if constexpr (!kWhole) {
    if (i < n) body(std::true_type(), i, n - i);
  }
}

// Writes results. With kStream, bypasses the caches, and p must be aligned to the vector.
template <bool kPartial, bool kStream>
HWY_INLINE void write_part(WideVec value, float* p, int64_t n) {
  if constexpr (kStream && !kPartial) return hn::Stream(value, Wide(), p);
  store_part<kPartial>(value, p, n);
}
template <bool kPartial, bool kStream>
HWY_INLINE void write_part(WideVec value, Bf16* p, int64_t n) {
  if constexpr (kStream && !kPartial) {
    return hn::Stream(narrow(Wide(), value), HalfWords<Wide>(), reinterpret_cast<uint16_t*>(p));
  }
  store_part<kPartial>(value, p, n);
}

// Computes exp(x) for x <= 0, within 2 ulp for results down to 1.2e-38 and 0 below, and NaN for
// NaN. With x = n ln2 + r and |r| <= ln2 / 2, the Taylor series of degree 7 deviates by 6e-9.
template <class D>
HWY_INLINE VecOf<D> exp_negative(D d, VecOf<D> x) {
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, -87.33654f);
  const auto underflow = hn::Lt(x, lowest);
  const auto n = hn::Round(hn::Mul(hn::IfThenElse(underflow, lowest, x), hn::Set(d, 1.44269504f)));
  // ln2 as a sum of two parts; the first has 9 trailing zero bits, so that n times it is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(underflow, hn::Mul(p, hn::BitCast(d, exponent)));
}

// Computes 1 / x for x > 0, within 2 ulp, and 1 / 8e37 for larger x. Returns NaN for NaN, because
// Min and Max of x86 return the second operand if either is NaN.
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

template <class D>
HWY_INLINE float sum_lanes(D d, VecOf<D> value) {
  return hn::GetLane(hn::SumOfLanes(d, value));
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
