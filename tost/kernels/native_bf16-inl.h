// Rounding to bfloat16 by the instruction for it (AVX512_BF16), where vec-inl.h takes nine. Include
// after vec-inl.h.
#if defined(TOST_KERNELS_NATIVE_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_NATIVE_BF16_INL_H_
#undef TOST_KERNELS_NATIVE_BF16_INL_H_
#else
#define TOST_KERNELS_NATIVE_BF16_INL_H_
#endif

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// A bfloat16 that is stored so; only for CPUs where has_native_bf16(). Subnormal values become 0.
struct NativeBf16 : Bf16 {};

#if HWY_TARGET == HWY_AVX3 && defined(__GNUC__)
inline bool has_native_bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
}
// Highway 1.0 has no target with this instruction, and a function for another target could not be
// inlined here.
template <class D>
HWY_INLINE void store(D, VecOf<D> value, NativeBf16* p) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(value.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
}
// Two vectors side by side at the price of one.
template <class D>
HWY_INLINE void store_pair(D, VecOf<D> first, VecOf<D> second, NativeBf16* p) {
  __m512i rounded;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(first.raw), "v"(second.raw));
  _mm512_storeu_si512(p, rounded);
}
#else
inline bool has_native_bf16() {
  return false;
}
#endif

template <class D, class Out>
HWY_INLINE void store_pair(D d, VecOf<D> first, VecOf<D> second, Out* p) {
  store(d, first, p);
  store(d, second, p + hn::Lanes(d));
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
