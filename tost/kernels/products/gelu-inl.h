// GELU as x (1/2 + h(x)), with h = Phi - 1/2 by a polynomial in x^2. The form without division and
// exponential can run in parallel with products. Include after vec-inl.h.
#if defined(TOST_KERNELS_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_GELU_INL_H_
#undef TOST_KERNELS_GELU_INL_H_
#else
#define TOST_KERNELS_GELU_INL_H_
#endif

#include "tost/kernels/row_ops.h"
#include "tost/kernels/vec-inl.h"

#ifndef TOST_KERNELS_GELU_PIECES_
#define TOST_KERNELS_GELU_PIECES_
#include <cmath>
#include <numbers>

namespace tost::kernels {

// GELU as max(x, 0) - r(|x|), where r consists of polynomials in |x|: piece k has k / kScale in its
// middle, and the last piece is 0. Coefficients are looked up in registers, on a port that tile
// products leave free; of the multiplication units they leave only every second free. They are
// interpolated at Chebyshev's nodes, by GCC while it compiles: constants stay in registers over all
// vectors of a row, which numbers that a store could change do not.
template <Activation kActivation, int kTerms>
struct GeluPieces {
  static constexpr float kScale = 7.43902439f;

  constexpr GeluPieces() {
    for (int k = 0; k < 31; ++k) {
      // In the first piece, which begins with 0, of r / |x|, so that r is exactly 0 there.
      const int first = k == 0 ? 1 : 0, terms = kTerms - first;
      const double half = (k == 0 ? 0.25 : 0.5) / kScale, middle = k == 0 ? half : k / kScale;
      double node[kTerms] = {}, value[kTerms] = {}, sum[kTerms] = {};
      for (int i = 0; i < terms; ++i) {
        node[i] = middle + half * std::cos(std::numbers::pi * (2 * i + 1) / (2 * terms));
        value[i] = tail(node[i]) * (first == 1 ? 1 : node[i]);
      }
      for (int n = 1; n < terms; ++n) {  // Newton's divided differences
        for (int i = terms - 1; i >= n; --i) {
          value[i] = (value[i] - value[i - 1]) / (node[i] - node[i - n]);
        }
      }
      for (int n = terms - 1; n >= 0; --n) {
        for (int i = terms - 1; i > 0; --i) sum[i] = sum[i - 1] - node[n] * sum[i];
        sum[0] = value[n] - node[n] * sum[0];
      }
      for (int i = 0; i < terms; ++i) coefficients[i + first][k] = static_cast<float>(sum[i]);
    }
  }

  // 1 - Phi(x), r(x) / x.
  static constexpr double tail(double x) {
    if (kActivation == Activation::kGelu) return std::erfc(x / std::numbers::sqrt2) / 2;
    return (1 - std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
  }

  float coefficients[kTerms][32] = {};
};
#ifdef __clang__  // evaluates no mathematical function in a constant
template <Activation kActivation, int kTerms>
inline const GeluPieces<kActivation, kTerms> kGeluPieces;
#else
template <Activation kActivation, int kTerms>
inline constexpr GeluPieces<kActivation, kTerms> kGeluPieces;
#endif

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Minimax (Lawson) fits of h(x) / x. The fine fits are polynomials in 2 x^2 / a^2 - 1, which keeps
// coefficients small; from a on h is 1/2 up to float32 rounding. The coarse fits are polynomials in
// x^2 that exceed 1/2 from a on, so that clamping Phi makes it exactly 0 or 1 there.
template <Activation>
struct GeluFit;

template <>
struct GeluFit<Activation::kGelu> {
  static constexpr float kFineEnd = 5.3f;
  static constexpr float kFine[] = {
      0.1333925575017929f,    -0.06651847064495087f,  0.049264002591371536f,
      -0.03959016129374504f,  0.03208282217383385f,   -0.025286920368671417f,
      0.018901599571108818f,  -0.01322953961789608f,  0.008910106495022774f,
      -0.005768174771219492f, 0.0029964980203658342f, -0.0011668959632515907f,
      0.0008455109200440347f, -0.000741117459256202f, 0.00024779094383120537f};
  static constexpr float kCoarseEnd = 4.15f;
  static constexpr float kCoarse[] = {0.3984667956829071f,    -0.06552968919277191f,
                                      0.009299016557633877f,  -0.0009508508956059813f,
                                      6.69156142976135e-05f,  -3.039664079551585e-06f,
                                      7.947467395297281e-08f, -9.026139835555114e-10f};
};

template <>
struct GeluFit<Activation::kGeluTanh> {
  static constexpr float kFineEnd = 5.4f;
  static constexpr float kFine[] = {
      0.13093456625938416f,     -0.06536713987588882f,  0.04860667511820793f,
      -0.039368752390146255f,   0.03223184496164322f,   -0.025692002847790718f,
      0.019259782508015633f,    -0.013070198707282543f, 0.009075391106307507f,
      -0.007768315728753805f,   0.00423196516931057f,   0.0011981851421296597f,
      -0.00019508057448547333f, -0.004025754984468222f, 0.002339834813028574f,
      0.0009190307464450598f,   -0.0007174475467763841f};
  static constexpr float kCoarseEnd = 4.05f;
  static constexpr float kCoarse[] = {0.3985206186771393f,     -0.06592526286840439f,
                                      0.009550962597131729f,   -0.001014477456919849f,
                                      7.516915502492338e-05f,  -3.6240642202756135e-06f,
                                      1.0096085389932341e-07f, -1.2237045821095194e-09f};
};

template <class D, size_t kTerms>
HWY_INLINE VecOf<D> horner(D d, const float (&c)[kTerms], VecOf<D> u) {
  auto p = hn::Set(d, c[kTerms - 1]);
#pragma GCC unroll 16
  for (int i = static_cast<int>(kTerms) - 2; i >= 0; --i) p = hn::MulAdd(p, u, hn::Set(d, c[i]));
  return p;
}

// Computes GELU with at most the error of the plain float32 form.
template <Activation kActivation, class D>
HWY_INLINE VecOf<D> gelu_fine(D d, VecOf<D> x) {
  using Fit = GeluFit<kActivation>;
  constexpr float kEnd = Fit::kFineEnd * Fit::kFineEnd;
  const auto half = hn::Set(d, 0.5f);
  const auto square = hn::Mul(x, x);
  const auto u = hn::MulSub(hn::Min(square, hn::Set(d, kEnd)), hn::Set(d, 2 / kEnd), hn::Set(d, 1));
  const auto inner = hn::Mul(x, horner(d, Fit::kFine, u));
  const auto h = hn::IfThenElse(hn::Gt(square, hn::Set(d, kEnd)), hn::CopySign(half, x), inner);
  return hn::Mul(x, hn::Add(half, h));
}

// Computes GELU with an error of at most 1e-4, and below a unit of bfloat16 for results above 2^-6.
template <Activation kActivation, class D>
HWY_INLINE VecOf<D> gelu_coarse(D d, VecOf<D> x) {
  using Fit = GeluFit<kActivation>;
  const auto square = hn::Min(hn::Mul(x, x), hn::Set(d, Fit::kCoarseEnd * Fit::kCoarseEnd));
  auto phi = hn::MulAdd(x, horner(d, Fit::kCoarse, square), hn::Set(d, 0.5f));
  phi = hn::Min(hn::Max(phi, hn::Zero(d)), hn::Set(d, 1.0f));
  return hn::Mul(x, phi);
}

#if HWY_TARGET == HWY_AVX3

// The same by three terms; two leave an error of at most 1.2e-3, for results that become bytes.
template <Activation kActivation, int kTerms>
HWY_INLINE __m512 gelu_pieces(__m512 x) {
  using Pieces = GeluPieces<kActivation, kTerms>;
  const auto& pieces = kGeluPieces<kActivation, kTerms>.coefficients;
  constexpr float kScale = Pieces::kScale, kEnd = 31 / kScale, kShift = 0x1.8p23f;
  const __m512 t = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(kEnd));
  const __m512i piece =
      _mm512_castps_si512(_mm512_fmadd_ps(t, _mm512_set1_ps(kScale), _mm512_set1_ps(kShift)));
  const auto coefficient = [&](int i) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(pieces[i]), piece,
                                  _mm512_loadu_ps(pieces[i] + 16));
  };
  __m512 r = coefficient(kTerms - 1);
#pragma GCC unroll 4
  for (int i = kTerms - 2; i >= 0; --i) r = _mm512_fmadd_ps(r, t, coefficient(i));
  return _mm512_sub_ps(_mm512_max_ps(_mm512_setzero_ps(), x), r);
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
