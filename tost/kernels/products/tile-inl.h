// Multiplies tiles of rows and columns whose sums stay in registers: of float32, of narrow weights
// that are widened, and of narrow numbers on both sides. Include after highway.h.
#if defined(TOST_KERNELS_PRODUCTS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TOST_KERNELS_PRODUCTS_TILE_INL_H_
#undef TOST_KERNELS_PRODUCTS_TILE_INL_H_
#else
#define TOST_KERNELS_PRODUCTS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int64_t kVectorLanes = hn::MaxLanes(Wide());

// The rows, and vectors of columns, of a tile: with AVX2 its sums fill 12 of 16 registers, with
// AVX-512 24 of 32.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6, kTileVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int kTileRows = 6, kTileVectors = 4;
#else
constexpr int kTileRows = 4, kTileVectors = 2;
#endif

// What a tile is computed of. An input is a number or a group, kStep of them after the one before.
// Vectors of the weight are adjacent, or with kApart `vector_stride` apart: constants leave
// registers for sums.
template <class T, int kStep = 1, bool kApart = false, bool kNear = false>
struct Factors {
  using Weight = T;
  static constexpr int kInputStep = kStep, kCache = kNear ? 3 : 2;
  HWY_INLINE int64_t at(int64_t vector) const {
    return vector * (kApart ? vector_stride : kVectorLanes);
  }
  const float* x;
  int64_t x_stride;  // from row to row
  const T* weight;
  int64_t weight_stride;  // from input to input, pair to pair or group to group
  int64_t inputs = 0;
  // Weights to prefetch, `next_bytes` with every four inputs, into the L2 cache, or L1 with kNear.
  const char* next = nullptr;
  int64_t next_bytes = 0;
  int64_t sums_stride = 0;
  bool add = false;  // the products' sums to those before
  int64_t vector_stride = 0;
};

// The weights of a column for two inputs.
struct Bf16Pair {
  Bf16 first, second;
};
struct Bf16Second : Bf16Pair {};  // only the second one is read

// Adjacent inputs of a column, which one instruction multiplies by those of a row and adds up. Sums
// of integers are in the bits of floats.
struct Bf16Group {
  Bf16 numbers[2];
};
struct Int8Group {
  int8_t numbers[4];  // by uint8
};
struct Int16Group {
  int16_t numbers[2];
};
template <class T>
constexpr bool kIntegers = std::is_same_v<T, Int8Group> || std::is_same_v<T, Int16Group>;
template <class T>
constexpr bool kGroup = kIntegers<T> || std::is_same_v<T, Bf16Group>;

// Loads a vector of weights as float32; of pairs, the first or the second ones.
HWY_INLINE WideVec load_weights(const float* w, bool) {
  return hn::LoadU(Wide(), w);
}
HWY_INLINE WideVec load_weights(const int8_t* w, bool) {
  const hn::RebindToSigned<Wide> di;
  return hn::ConvertTo(Wide(), hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, Wide>(), w)));
}
HWY_INLINE WideVec load_weights(const Bf16Pair* w, bool second) {
  const hn::RebindToUnsigned<Wide> du;
  const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(w));
  return hn::BitCast(Wide(),
                     second ? hn::And(both, hn::Set(du, 0xffff0000u)) : hn::ShiftLeft<16>(both));
}
HWY_INLINE WideVec load_weights(const Bf16Second* w, bool) {
  return load_weights(static_cast<const Bf16Pair*>(w), true);
}

template <class T, std::enable_if_t<kGroup<T>, int> = 0>
HWY_INLINE WideVec load_weights(const T* w, bool) {
  return hn::LoadU(Wide(), reinterpret_cast<const float*>(w));
}

// Adds x * w, of weights of type T, to `sum` in its register. Compilers that may choose the
// instruction move sums between registers and the stack, which takes 12 % of the time with AVX2.
// Highway 1.0 has no functions for most instructions that multiply groups.
template <class T>
HWY_INLINE void add_product(WideVec x, WideVec w, WideVec& sum) {
#if defined(__x86_64__) && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
  if constexpr (std::is_same_v<T, Int16Group>) {
    WideVec pairs;
    asm("vpmaddwd %1, %2, %0" : "=v"(pairs.raw) : "v"(w.raw), "v"(x.raw));
    asm("vpaddd %1, %0, %0" : "+v"(sum.raw) : "v"(pairs.raw));
  } else if constexpr (std::is_same_v<T, Int8Group>) {
    asm("vpdpbusd %1, %2, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
  } else if constexpr (std::is_same_v<T, Bf16Group>) {
    asm("vdpbf16ps %1, %2, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
  } else {
    asm("vfmadd231ps %1, %2, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
  }
#else
  static_assert(!kGroup<T>);
  sum = hn::MulAdd(x, w, sum);
#endif
}

// Computes sums [kRows, kVectors vectors] = or += x weight. Input i adds to sum i % kChains, and
// these are added in the end. Every loop over sums is unrolled, so that they are in registers.
template <int kRows, int kVectors, int kChains = 1, class F>
HWY_NOINLINE void multiply(const F& f, float* HWY_RESTRICT sums) {
  using T = typename F::Weight;
  constexpr bool kPairs = std::is_same_v<T, Bf16Pair> && F::kInputStep == 1;
  const Wide d;
  WideVec sum[kChains][kRows][kVectors], w[kVectors];
#pragma GCC unroll 24
  for (int i = 0; i < kChains * kRows * kVectors; ++i) {
    sum[i / kVectors / kRows][i / kVectors % kRows][i % kVectors] = hn::Zero(d);
  }
  const float* HWY_RESTRICT x = f.x;
  const T* HWY_RESTRICT weight = f.weight;
  const int64_t x_stride = f.x_stride, weight_stride = f.weight_stride;
  const auto add_input = [&](WideVec(&chain)[kRows][kVectors], bool second) TOST_INLINE {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = load_weights(weight + f.at(v), second);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      float bits;  // of a number or a group
      std::memcpy(&bits, x + r * x_stride, sizeof bits);
      const WideVec number = hn::Set(d, bits);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) add_product<T>(number, w[v], chain[r][v]);
    }
    x += F::kInputStep;
    if (!kPairs || second) weight += weight_stride;
  };
  const char* next = f.next;
  for (int64_t i = f.inputs / 4; i > 0; --i, next += f.next_bytes) {
    if (kChains == 1) {
      for (int64_t b = 0; b < f.next_bytes; b += 64) __builtin_prefetch(next + b, 0, F::kCache);
    }
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const int at = u * kVectors * kVectorLanes * int{sizeof(T)} / (kPairs ? 2 : 1);
      if (kChains > 1 && at % 64 == 0) __builtin_prefetch(next + at, 0, 2);
      add_input(sum[u % kChains], kPairs && u % 2 > 0);
    }
  }
  if ((f.inputs & 2) != 0) add_input(sum[0], false), add_input(sum[kChains - 1], kPairs);
  if ((f.inputs & 1) != 0) add_input(sum[0], false);
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kVectors; ++i) {
    const int r = i / kVectors, v = i % kVectors;
    float* to = sums + r * f.sums_stride + v * kVectorLanes;
    WideVec total = f.add ? hn::Add(hn::LoadU(d, to), sum[0][r][v]) : sum[0][r][v];
    if (kChains > 1) total = hn::Add(total, sum[kChains - 1][r][v]);
    hn::StoreU(total, d, to);
  }
}

// At most kRows rows and, with kFewer, at most kVectors vectors of columns.
template <int kRows, int kVectors, bool kFewer, int kChains = 1, class F>
HWY_INLINE void multiply_part(const F& f, int64_t rows, int64_t vectors, float* sums) {
  if constexpr (kFewer && kVectors > 1) {
    if (vectors < kVectors) {
      return multiply_part<kRows, kVectors - 1, true>(f, rows, vectors, sums);
    }
  }
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return multiply_part<kRows - 1, kVectors, false, kChains>(f, rows, vectors, sums);
    }
  }
  multiply<kRows, kVectors, kChains>(f, sums);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
