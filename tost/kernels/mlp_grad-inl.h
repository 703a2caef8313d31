// Rows, chunks of rows and GELU for mlp_grad*.cc, per instruction set. Include after highway.h.
#if defined(TOST_KERNELS_MLP_GRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_MLP_GRAD_INL_H_
#undef TOST_KERNELS_MLP_GRAD_INL_H_
#else
#define TOST_KERNELS_MLP_GRAD_INL_H_
#endif

#include <type_traits>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;
using Vec = hn::Vec<Wide>;

// body(partial, i, n) for each vector of a row; partial is a constant, n the lanes that count.
template <class Body>
HWY_INLINE void over_row(int64_t width, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) body(std::false_type(), i, static_cast<size_t>(lanes));
  if (i < width) body(std::true_type(), i, static_cast<size_t>(width - i));
}

template <bool kPartial, class T>
HWY_INLINE Vec load_part(const T* p, size_t n) {
  return load_lanes<kPartial>(Wide(), p, n);
}
template <bool kPartial, class T>
HWY_INLINE void store_part(Vec value, T* p, size_t n) {
  store_lanes<kPartial>(Wide(), value, p, n);
}
// The first n lanes, then zeros.
template <bool kPartial>
HWY_INLINE Vec only_first(Vec value, size_t n) {
  if constexpr (kPartial) return hn::IfThenElseZero(hn::FirstN(Wide(), n), value);
  return value;
}

// Phi(x), and exp(-x^2 / 2), by the rational form 7.1.26 of Abramowitz and Stegun, which ATen's
// vectors use as well: within 1.5e-7.
struct Normal {
  Vec cumulative, bell;
};
HWY_INLINE Normal normal_of(Vec x) {
  const Wide d;
  const Vec size = hn::Abs(x);
  const Vec bell = exp_negative(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  // 0.3275911 |x| / sqrt(2)
  const Vec t =
      hn::Div(hn::Set(d, 1.0f), hn::MulAdd(size, hn::Set(d, 0.23164190f), hn::Set(d, 1.0f)));
  Vec p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const Vec tail = hn::Mul(hn::Mul(hn::Mul(p, t), bell), hn::Set(d, 0.5f));
  const auto below = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(below, tail, hn::Sub(hn::Set(d, 1.0f), tail)), bell};
}

struct Gelu {
  Vec value, slope;
};
template <bool kTanh>
HWY_INLINE Gelu gelu_of(Vec x) {
  const Wide d;
  if constexpr (!kTanh) {
    const Normal normal = normal_of(x);
    const Vec density = hn::Mul(normal.bell, hn::Set(d, 0.39894228f));
    return {hn::Mul(x, normal.cumulative), hn::MulAdd(x, density, normal.cumulative)};
  }
  constexpr float kRoot = 0.79788456f, kCubic = 0.044715f;
  const Vec one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const Vec square = hn::Mul(x, x);
  const Vec inner =
      hn::Mul(hn::Mul(x, hn::Set(d, kRoot)), hn::MulAdd(square, hn::Set(d, kCubic), one));
  const Vec e = exp_negative(d, hn::Mul(hn::Abs(inner), hn::Set(d, -2.0f)));
  const Vec t = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), inner);
  const Vec factor = hn::MulAdd(half, t, half);
  const Vec inner_slope = hn::MulAdd(square, hn::Set(d, 3 * kRoot * kCubic), hn::Set(d, kRoot));
  const Vec bend = hn::Mul(hn::Mul(half, x), hn::NegMulAdd(t, t, one));
  return {hn::Mul(x, factor), hn::MulAdd(bend, inner_slope, factor)};
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
