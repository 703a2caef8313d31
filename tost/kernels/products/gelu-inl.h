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

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Minimax (Lawson) fits of h(x) / x. The fine fits are polynomials in 2 x^2 / a^2 - 1, which keeps
// coefficients small; from a on h is 1/2 up to float32 rounding. The coarse and rough fits are
// polynomials in x^2 that exceed 1/2 from a on, so that clamping makes Phi exactly 0 or 1 there.
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

// Computes GELU with an error of at most 1.2e-3, for results that are then rounded to bytes.
template <Activation kActivation, class D>
HWY_INLINE VecOf<D> gelu_rough(D d, VecOf<D> x) {
  auto phi =
      hn::MulAdd(x, horner(d, GeluFit<kActivation>::kRough, hn::Mul(x, x)), hn::Set(d, 0.5f));
  phi = hn::Min(hn::Max(phi, hn::Zero(d)), hn::Set(d, 1.0f));
  return hn::Mul(x, phi);
}

#if HWY_TARGET == HWY_AVX3

// Computes GELU as max(x, 0) - r(|x|), where r consists of polynomials in |x|. Piece k has its
// middle at k / kScale, and the last piece is 0. Coefficients are looked up in registers, on a port
// that tile products do not use.
template <Activation>
struct GeluPieces;

template <>
struct GeluPieces<Activation::kGelu> {
  static constexpr float kCoarse[3][32] = {
      {0.0f,          5.24022544e-05f, 0.000957262993f, 0.00475876685f,
       0.0142502096f, 0.0322118551f,   0.0606182478f,   0.10000252f,
       0.14912267f,   0.204999208f,    0.263306022f,    0.319019228f,
       0.367180049f,  0.403615773f,    0.425487429f,    0.431581855f,
       0.422326624f,  0.399561495f,    0.366140723f,    0.325457543f,
       0.280979484f,  0.235863104f,    0.19268848f,     0.153325021f,
       0.118915394f,  0.0899496898f,   0.0663949177f,   0.0478468947f,
       0.0336777978f, 0.023161795f,    0.0155700389f,   0.0f},
      {0.499996841f,   0.498779655f,   0.490120709f,    0.4677701f,
       0.427637577f,   0.368398815f,   0.291633219f,    0.201496005f,
       0.104008801f,   0.00611627987f, -0.0853150412f,  -0.164387673f,
       -0.226824597f,  -0.270310551f,  -0.294515669f,   -0.300848484f,
       -0.2920219f,    -0.271531224f,  -0.243136793f,   -0.210423872f,
       -0.176483557f,  -0.143729165f,  -0.113838248f,   -0.0877944082f,
       -0.0659951791f, -0.0483926386f, -0.0346389599f,  -0.0242169593f,
       -0.0165446717f, -0.0110500837f, -0.00721776811f, 0.0f},
      {-0.398660839f,  -0.39156577f,   -0.370685279f,   -0.337728441f,
       -0.295234621f,  -0.246341303f,  -0.194442719f,   -0.142843962f,
       -0.0944561362f, -0.0515682809f, -0.0157165378f,  0.0123452349f,
       0.0325845405f,  0.0455612764f,  0.0522588231f,   0.0539038517f,
       0.0517993197f,  0.0471881218f,  0.0411567017f,   0.0345802717f,
       0.0281051248f,  0.0221599285f,  0.0169861298f,   0.0126781445f,
       0.00922544487f, 0.00655107573f, 0.00454331189f,  0.00307925791f,
       0.0020406316f,  0.00132288632f, 0.000839237124f, 0.0f},
  };
  static constexpr float kRough[2][32] = {
      {0.0f,           0.00624887273f, 0.0269340947f,  0.0589649752f,
       0.0990130827f,  0.143038541f,   0.186788887f,   0.226294011f,
       0.258286923f,   0.280497491f,   0.291791558f,   0.292153925f,
       0.282538623f,   0.264626414f,   0.240536034f,   0.212536573f,
       0.182797268f,   0.15320015f,    0.125225291f,   0.09990675f,
       0.0778473243f,  0.0592753775f,  0.0441254824f,  0.0321265981f,
       0.0228851307f,  0.0159547403f,  0.0108891102f,  0.00727723679f,
       0.00476327538f, 0.00305417343f, 0.00191869459f, 0.0f},
      {0.486599237f,    0.393466443f,     0.290725023f,     0.195265725f,
       0.110009842f,    0.0371087529f,    -0.0221716128f,   -0.06747289f,
       -0.0992780253f,  -0.118772842f,    -0.127659008f,    -0.127945662f,
       -0.121745512f,   -0.111097164f,    -0.097827971f,    -0.0834644884f,
       -0.0691899583f,  -0.0558429472f,   -0.0439473242f,   -0.0337625109f,
       -0.0253433697f,  -0.0186007451f,   -0.0133561669f,   -0.00938691199f,
       -0.00645984011f, -0.00435431907f,  -0.00287565961f,  -0.00186112418f,
       -0.00118065032f, -0.000734261877f, -0.000447744649f, 0.0f},
  };
};

template <>
struct GeluPieces<Activation::kGeluTanh> {
  static constexpr float kCoarse[3][32] = {
      {0.0f,          5.26523727e-05f, 0.000961372163f, 0.00477544963f,
       0.0142849842f, 0.0322488323f,   0.0606006868f,   0.0998268872f,
       0.14865984f,   0.20414643f,     0.262056947f,    0.317524612f,
       0.365767688f,  0.402748555f,    0.425660908f,    0.433187276f,
       0.425522029f,  0.404193878f,    0.371746898f,    0.331345916f,
       0.286369771f,  0.24004449f,     0.19515419f,     0.153851658f,
       0.117574133f,  0.0870559812f,   0.0624182373f,   0.0433077924f,
       0.0290571321f, 0.018838359f,    0.0117921829f,   0.0f},
      {0.499996841f,   0.498773813f,    0.490077704f,    0.46765247f,
       0.427442223f,   0.368194461f,    0.29157421f,     0.201796845f,
       0.104878232f,   0.00766838295f,  -0.0831407905f,  -0.161862925f,
       -0.224403232f,  -0.268535286f,   -0.29388544f,    -0.301686913f,
       -0.294387221f,  -0.275193989f,   -0.247629732f,   -0.21514608f,
       -0.180827677f,  -0.147197172f,   -0.116119526f,   -0.0887933448f,
       -0.0658108965f, -0.0472647399f,  -0.0328782871f,  -0.0221397337f,
       -0.0144227268f, -0.00908293482f, -0.00552560342f, 0.0f},
      {-0.398659468f,  -0.391530305f,  -0.370559514f,   -0.337491602f,
       -0.294914126f,  -0.246011958f,  -0.194210291f,   -0.142816409f,
       -0.0947101116f, -0.0521211289f, -0.0165136196f,  0.0114230616f,
       0.0316948332f,  0.0448630191f,  0.0518755652f,   0.0538972132f,
       0.0521592759f,  0.047840964f,   0.0419864953f,   0.0354566313f,
       0.0289097298f,  0.0228057951f,  0.0174267739f,   0.0129067674f,
       0.00926668756f, 0.00644892361f, 0.00434872601f,  0.00284012849f,
       0.00179537362f, 0.00109778286f, 0.000648783986f, 0.0f},
  };
  static constexpr float kRough[2][32] = {
      {0.0f,           0.00624858635f, 0.0269294772f,  0.0589437895f,
       0.0989559963f,  0.142927393f,   0.186620295f,   0.226093397f,
       0.258116335f,   0.280451745f,   0.291980326f,   0.292673349f,
       0.283439934f,   0.265891314f,   0.242067963f,   0.214171141f,
       0.184330374f,   0.154426187f,   0.125975847f,   0.100080147f,
       0.0774227083f,  0.0583097786f,  0.042736508f,   0.0304665267f,
       0.021113174f,   0.0142133981f,  0.00928831287f, 0.00588748651f,
       0.00361676887f, 0.00215149391f, 0.00123825215f, 0.0f},
      {0.486599267f,     0.393469959f,     0.290749341f,     0.19533883f,
       0.11015898f,      0.0373472348f,    -0.0218552407f,   -0.0671195015f,
       -0.098954007f,    -0.118557654f,    -0.127627194f,    -0.12814799f,
       -0.122194886f,    -0.111763097f,    -0.0986413062f,   -0.0843307674f,
       -0.0700078011f,   -0.0565225556f,   -0.0444249325f,   -0.0340080597f,
       -0.0253607444f,   -0.0184217207f,   -0.0130305476f,   -0.00897155516f,
       -0.00600897707f,  -0.0039126859f,   -0.00247498648f,  -0.00151967711f,
       -0.000905000605f, -0.000522263465f, -0.000291801087f, 0.0f},
  };
};

template <int kTerms>
HWY_INLINE __m512 gelu_pieces(const float (&pieces)[kTerms][32], __m512 x) {
  constexpr float kScale = 7.43902439f, kEnd = 31 / kScale, kShift = 0x1.8p23f;
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
