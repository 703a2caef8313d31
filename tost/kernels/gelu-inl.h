// GELU as x (1/2 + h(x)), h = Phi - 1/2 by a polynomial in x^2: no division and no exponential, so
// that it fits into the shadow of a matrix product. Include after vec-inl.h.
#if defined(TOST_KERNELS_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_GELU_INL_H_
#undef TOST_KERNELS_GELU_INL_H_
#else
#define TOST_KERNELS_GELU_INL_H_
#endif

#include "tost/kernels/row_ops.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Minimax (Lawson) fits of h(x) / x. The fine ones are polynomials in 2 x^2 / a^2 - 1, which keeps
// coefficients small; from a on h is 1/2 to float32 rounding. The coarse ones are polynomials in
// x^2 that pass 1/2 at a, so that clamping Phi makes it exactly 0 or 1 beyond. The rough ones do
// so by themselves, since their last term grows.
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
  static constexpr float kRough[] = {0.3942784890656015f, -0.059806760868868124f,
                                     0.0067116442482331945f, -0.00041510781125273633f,
                                     1.055523975686011e-05f};
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
  static constexpr float kRough[] = {0.3940481835240507f, -0.05973873459181956f,
                                     0.006714684454033127f, -0.0004165674466489172f,
                                     1.0628972870329678e-05f};
};

template <class D, size_t kTerms>
HWY_INLINE VecOf<D> horner(D d, const float (&c)[kTerms], VecOf<D> u) {
  auto p = hn::Set(d, c[kTerms - 1]);
#pragma GCC unroll 16
  for (int i = static_cast<int>(kTerms) - 2; i >= 0; --i) p = hn::MulAdd(p, u, hn::Set(d, c[i]));
  return p;
}

// Error at most that of the plain float32 form.
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

// Error at most 1e-4, and below one unit of bfloat16 for results above 2^-6.
template <Activation kActivation, class D>
HWY_INLINE VecOf<D> gelu_coarse(D d, VecOf<D> x) {
  using Fit = GeluFit<kActivation>;
  const auto square = hn::Min(hn::Mul(x, x), hn::Set(d, Fit::kCoarseEnd * Fit::kCoarseEnd));
  auto phi = hn::MulAdd(x, horner(d, Fit::kCoarse, square), hn::Set(d, 0.5f));
  phi = hn::Min(hn::Max(phi, hn::Zero(d)), hn::Set(d, 1.0f));
  return hn::Mul(x, phi);
}

// Error at most 1.2e-3: for results that are rounded to bytes next.
template <Activation kActivation, class D>
HWY_INLINE VecOf<D> gelu_rough(D d, VecOf<D> x) {
  auto phi =
      hn::MulAdd(x, horner(d, GeluFit<kActivation>::kRough, hn::Mul(x, x)), hn::Set(d, 0.5f));
  phi = hn::Min(hn::Max(phi, hn::Zero(d)), hn::Set(d, 1.0f));
  return hn::Mul(x, phi);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
