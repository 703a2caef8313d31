// The epilogue of a matrix product on vectors of columns (see row_ops.h). Include after highway.h.
#if defined(TOST_KERNELS_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_FINISH_INL_H_
#undef TOST_KERNELS_FINISH_INL_H_
#else
#define TOST_KERNELS_FINISH_INL_H_
#endif

#include <type_traits>

#include "tost/kernels/products/gelu-inl.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// A bfloat16 type that one instruction of AVX512_BF16 rounds, for CPUs with has_native_bf16();
// vec-inl.h needs nine instructions. Subnormal values become 0.
struct NativeBf16 : Bf16 {};

#if HWY_TARGET == HWY_AVX3 && defined(__GNUC__)
inline bool has_native_bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
}
// Uses assembly, because Highway 1.0 has no target with this instruction, and a function for
// another target cannot be inlined.
template <class D>
HWY_INLINE void store(D, VecOf<D> value, NativeBf16* p) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(value.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
}
// Rounds two adjacent vectors by one instruction.
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

constexpr int kBlock = 4;  // vectors of columns handled together

// The operation on a value: none, an activation, or the residual.
enum class Finish { kStore, kGelu, kGeluTanh, kAdd };

template <Activation kActivation, class Sum, class Out>
HWY_INLINE WideVec gelu(WideVec x) {
  const Wide d;
  if constexpr (sizeof(Out) == sizeof(float)) return gelu_fine<kActivation>(d, x);
#if HWY_TARGET == HWY_AVX3
  constexpr int kTerms = std::is_integral_v<Sum> ? 2 : 3;
  return WideVec{gelu_pieces<kActivation, kTerms>(x.raw)};
#else
  return gelu_coarse<kActivation>(d, x);
#endif
}

template <Finish kFinish, class Sum, class Out>
HWY_INLINE WideVec activate(WideVec x) {
  if constexpr (kFinish == Finish::kGelu) return gelu<Activation::kGelu, Sum, Out>(x);
  if constexpr (kFinish == Finish::kGeluTanh) return gelu<Activation::kGeluTanh, Sum, Out>(x);
  return x;
}

// The factors for a row of integer sums; zeros for other sums.
struct RowFactors {
  WideVec scale, zero;
};
template <class Sum>
HWY_INLINE RowFactors row_factors(const float* scale, const int32_t* zero, int64_t row) {
  const Wide d;
  if constexpr (std::is_integral_v<Sum>) {
    const hn::RebindToSigned<Wide> di;
    return {hn::Set(d, scale[row]), hn::ConvertTo(d, hn::Set(di, zero[row]))};
  }
  return {hn::Zero(d), hn::Zero(d)};
}

// The bias and the factors of one vector of columns, and the epilogue for one row's sums.
template <class Sum, class Out, Finish kFinish, bool kPartial>
class Column {
 public:
  static constexpr bool kIntegers = std::is_integral_v<Sum>;

  HWY_INLINE Column() {}  // An implicit one is not compiled for the target, and g++ for Arm minds.

  HWY_INLINE void load_parameters(const FinishRowsArgs& a, int64_t c, int64_t lanes) {
    const Wide d;
    const auto column = [&](const float* p, float missing) {
      return p == nullptr ? hn::Set(d, missing) : load_part<kPartial>(p + c, lanes);
    };
    bias_ = column(a.bias, 0.0f);
    if constexpr (kFinish == Finish::kAdd) gamma_ = column(a.gamma, 1.0f);
    if constexpr (kIntegers) {
      scale_ = column(a.column_scale, 1.0f);
      weights_ = integers(a.column_sum + c, lanes);
    }
  }

  HWY_INLINE void finish(const Sum* sums, const RowFactors& row, Out* out, int64_t lanes) const {
    store_part<kPartial>(value(sums, row, out, lanes), out, lanes);
  }

  HWY_INLINE WideVec value(const Sum* sums, const RowFactors& row, const Out* out,
                           int64_t lanes) const {
    WideVec value;
    if constexpr (kIntegers) {
      const auto centred = hn::NegMulAdd(row.zero, weights_, integers(sums, lanes));
      value = hn::MulAdd(centred, hn::Mul(row.scale, scale_), bias_);
    } else {
      value = hn::Add(load_part<kPartial>(sums, lanes), bias_);
    }
    value = activate<kFinish, Sum, Out>(value);
    if constexpr (kFinish == Finish::kAdd) {
      value = hn::MulAdd(gamma_, value, load_part<kPartial>(out, lanes));
    }
    return value;
  }

 private:
  static HWY_INLINE WideVec integers(const int32_t* p, int64_t lanes) {
    const Wide d;
    const hn::RebindToSigned<Wide> di;
    if constexpr (kPartial) {
      HWY_ALIGN int32_t whole[hn::MaxLanes(Wide())] = {};
      for (int64_t i = 0; i < lanes; ++i) whole[i] = p[i];
      return hn::ConvertTo(d, hn::Load(di, whole));
    } else {
      return hn::ConvertTo(d, hn::LoadU(di, p));
    }
  }

  WideVec bias_, gamma_, scale_, weights_;
};

// Processes an even number of whole vectors of adjacent columns.
template <class Sum, class Out, Finish kFinish, int kVectors>
HWY_INLINE void finish_pairs(const Column<Sum, Out, kFinish, false> (&columns)[kVectors],
                             const Sum* sums, const RowFactors& row, Out* out) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v += 2) {
    const int64_t c = v * lanes;
    const int64_t next = c + lanes;
    const auto first = columns[v].value(sums + c, row, out + c, lanes);
    const auto second = columns[v + 1].value(sums + next, row, out + next, lanes);
    store_pair(d, first, second, out + c);
  }
}

template <class Sum, class Out, Finish kFinish, bool kPartial, int kVectors>
HWY_INLINE void finish_columns(const FinishRowsArgs& a, int64_t c, int64_t last_lanes) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Column<Sum, Out, kFinish, kPartial> columns[kVectors];
  for (int v = 0; v < kVectors; ++v) columns[v].load_parameters(a, c + v * lanes, last_lanes);
  for (int64_t r = 0; r < a.rows; ++r) {
    const Sum* sums = static_cast<const Sum*>(a.sums) + r * a.sums_stride + c;
    Out* out = static_cast<Out*>(a.out) + r * a.out_stride + c;
    const RowFactors row = row_factors<Sum>(a.row_scale, a.row_zero, r);
    if constexpr (kVectors % 2 == 0 && !kPartial) {
      finish_pairs(columns, sums, row, out);
    } else {
      for (int v = 0; v < kVectors; ++v) {
        columns[v].finish(sums + v * lanes, row, out + v * lanes, last_lanes);
      }
    }
  }
}

template <class Sum, class Out, Finish kFinish>
void finish_panel(const FinishRowsArgs& a) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide()));
  int64_t c = 0;
  for (; c + kBlock * lanes <= a.columns; c += kBlock * lanes) {
    finish_columns<Sum, Out, kFinish, false, kBlock>(a, c, lanes);
  }
  for (; c + lanes <= a.columns; c += lanes) {
    finish_columns<Sum, Out, kFinish, false, 1>(a, c, lanes);
  }
  if (c < a.columns) finish_columns<Sum, Out, kFinish, true, 1>(a, c, a.columns - c);
}

// Calls run<Out, finish>() for the type of the results and the operation.
template <class Out, class Run>
HWY_INLINE void for_finish(const FinishRowsArgs& a, const Run& run) {
  if (a.add) return run.template operator()<Out, Finish::kAdd>();
  switch (a.activation) {
    case Activation::kGelu:
      return run.template operator()<Out, Finish::kGelu>();
    case Activation::kGeluTanh:
      return run.template operator()<Out, Finish::kGeluTanh>();
    default:
      return run.template operator()<Out, Finish::kStore>();
  }
}
template <class Run>
HWY_INLINE void for_results(const FinishRowsArgs& a, const Run& run) {
  if (a.out_dtype == DType::kFloat32) return for_finish<float>(a, run);
  has_native_bf16() ? for_finish<NativeBf16>(a, run) : for_finish<Bf16>(a, run);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
