// Computes tiles of rows and columns whose sums stay in registers: with AVX2 12 of 16 registers
// hold sums of 6 rows and 16 columns, with AVX-512 24 of 32 those of 8 rows and 48 columns. Both
// loops are written in assembly, because compilers move sums between registers in them.
#include "tost/kernels/products/wide_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/wide_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/kernels/products/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6, kTileVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int kTileRows = 6, kTileVectors = 4;
#else
constexpr int kTileRows = 4, kTileVectors = 2;
#endif
constexpr int64_t kVectorLanes = hn::MaxLanes(Wide());
constexpr int64_t kTileColumns = kTileVectors * kVectorLanes;

// What a tile is computed of.
struct Factors {
  const float* x;
  int64_t x_stride;
  const float* weight;
  int64_t weight_stride;  // from input to input
  int64_t inputs;
  const char* next;  // weights to prefetch into the L2 cache, a line with every four inputs
};

// Computes sums [kRows, kTileColumns] = x weight, of the first kVectors vectors of columns.
template <int kRows, int kVectors>
HWY_NOINLINE void multiply(const Factors& f, float* HWY_RESTRICT sums) {
  const Wide d;
  WideVec sum[kRows][kVectors];
  for (auto& row : sum) {
    for (auto& each : row) each = hn::Zero(d);
  }
  const float* HWY_RESTRICT weight = f.weight;
  for (int64_t i = 0; i < f.inputs; ++i, weight += f.weight_stride) {
    WideVec w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, weight + v * kVectorLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const WideVec number = hn::Set(d, f.x[r * f.x_stride + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::MulAdd(number, w[v], sum[r][v]);
#if defined(__x86_64__) && defined(__GNUC__) && HWY_TARGET != HWY_EMU128
        asm("" : "+v"(sum[r][v].raw));  // keeps it in its register
#endif
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, sums + r * kTileColumns + v * kVectorLanes);
    }
  }
}

#if (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2) && defined(__GNUC__) && defined(__x86_64__)
#define TOST_WHOLE_TILE 1

// clang-format off
#define TOST_CLEAR(V) "vxorps %%" TOST_WORD #V ", %%" TOST_WORD #V ", %%" TOST_WORD #V "\n\t"
#define TOST_KEEP(V, AT) "vmovaps %%" TOST_WORD #V ", " AT "(%[sums])\n\t"
// Loads a vector of the weights of input I.
#define TOST_WEIGHT(V, I, AT) \
  "vmovups " #I " * " TOST_STEP " + " #AT "(%[weight]), %%" TOST_WORD #V "\n\t"
// Loads number I of a row.
#define TOST_NUMBER(V, I, ROW) "vbroadcastss " #I " * 4" ROW ", %%" TOST_WORD #V "\n\t"
#define TOST_ADD(W, X, SUM) \
  "vfmadd231ps %%" TOST_WORD #W ", %%" TOST_WORD #X ", %%" TOST_WORD #SUM "\n\t"
#if HWY_TARGET == HWY_AVX3
#define TOST_WORD "zmm"
#define TOST_STEP "192"
// DO(I, register for a number of the row, address of the row, place of its sums, their registers)
#define TOST_ROWS(DO, I) \
  DO(I, 27, "(%[row0])", "0 * 192", 0, 1, 2) \
  DO(I, 28, "(%[row0], %[bytes])", "1 * 192", 3, 4, 5) \
  DO(I, 29, "(%[row0], %[bytes], 2)", "2 * 192", 6, 7, 8) \
  DO(I, 30, "(%[row3])", "3 * 192", 9, 10, 11) \
  DO(I, 31, "(%[row3], %[bytes])", "4 * 192", 12, 13, 14) \
  DO(I, 27, "(%[row3], %[bytes], 2)", "5 * 192", 15, 16, 17) \
  DO(I, 28, "(%[row6])", "6 * 192", 18, 19, 20) \
  DO(I, 29, "(%[row6], %[bytes])", "7 * 192", 21, 22, 23)
#define TOST_CLEAR_ROW(I, X, ROW, AT, A, B, C) TOST_CLEAR(A) TOST_CLEAR(B) TOST_CLEAR(C)
#define TOST_KEEP_ROW(I, X, ROW, AT, A, B, C) \
  TOST_KEEP(A, AT) TOST_KEEP(B, AT " + 64") TOST_KEEP(C, AT " + 128")
#define TOST_ADD_ROW(I, X, ROW, AT, A, B, C) \
  TOST_NUMBER(X, I, ROW) TOST_ADD(24, X, A) TOST_ADD(25, X, B) TOST_ADD(26, X, C)
#define TOST_WEIGHTS(I) TOST_WEIGHT(24, I, 0) TOST_WEIGHT(25, I, 64) TOST_WEIGHT(26, I, 128)
#define TOST_MORE_REGISTERS , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", \
  "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
#else
#define TOST_WORD "ymm"
#define TOST_STEP "64"
#define TOST_ROWS(DO, I) \
  DO(I, 14, "(%[row0])", "0 * 64", 0, 1) \
  DO(I, 15, "(%[row0], %[bytes])", "1 * 64", 2, 3) \
  DO(I, 14, "(%[row0], %[bytes], 2)", "2 * 64", 4, 5) \
  DO(I, 15, "(%[row3])", "3 * 64", 6, 7) \
  DO(I, 14, "(%[row3], %[bytes])", "4 * 64", 8, 9) \
  DO(I, 15, "(%[row3], %[bytes], 2)", "5 * 64", 10, 11)
#define TOST_CLEAR_ROW(I, X, ROW, AT, A, B) TOST_CLEAR(A) TOST_CLEAR(B)
#define TOST_KEEP_ROW(I, X, ROW, AT, A, B) TOST_KEEP(A, AT) TOST_KEEP(B, AT " + 32")
#define TOST_ADD_ROW(I, X, ROW, AT, A, B) \
  TOST_NUMBER(X, I, ROW) TOST_ADD(12, X, A) TOST_ADD(13, X, B)
#define TOST_WEIGHTS(I) TOST_WEIGHT(12, I, 0) TOST_WEIGHT(13, I, 32)
#define TOST_MORE_REGISTERS
#endif
#define TOST_INPUT(I) TOST_WEIGHTS(I) TOST_ROWS(TOST_ADD_ROW, I)

// The same of a whole tile of a panel that is as wide.
HWY_NOINLINE void multiply_tile(const Factors& f, float* sums) {
  const float *row0 = f.x, *row3 = f.x + 3 * f.x_stride, *row6 = f.x + 6 * f.x_stride;
  const float* weight = f.weight;
  const char* next = f.next;
  int64_t fours = f.inputs / 4, ones = f.inputs % 4;
  asm volatile(
      TOST_ROWS(TOST_CLEAR_ROW, 0)
      "test %[fours], %[fours]\n\t"
      "jz 2f\n"
      ".p2align 5\n"
      "1:\n\t"
      "prefetcht1 (%[next])\n\t"
      TOST_INPUT(0) TOST_INPUT(1) TOST_INPUT(2) TOST_INPUT(3)
      "add $16, %[row0]\n\t"
      "add $16, %[row3]\n\t"
      "add $16, %[row6]\n\t"
      "add $4 * " TOST_STEP ", %[weight]\n\t"
      "add $64, %[next]\n\t"
      "dec %[fours]\n\t"
      "jnz 1b\n"
      "2:\n\t"
      "test %[ones], %[ones]\n\t"
      "jz 4f\n"
      "3:\n\t"
      TOST_INPUT(0)
      "add $4, %[row0]\n\t"
      "add $4, %[row3]\n\t"
      "add $4, %[row6]\n\t"
      "add $" TOST_STEP ", %[weight]\n\t"
      "dec %[ones]\n\t"
      "jnz 3b\n"
      "4:\n\t"
      TOST_ROWS(TOST_KEEP_ROW, 0)
      : [row0] "+r"(row0), [row3] "+r"(row3), [row6] "+r"(row6), [weight] "+r"(weight),
        [next] "+r"(next), [fours] "+r"(fours), [ones] "+r"(ones)
      : [bytes] "r"(f.x_stride * 4), [sums] "r"(sums)
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" TOST_MORE_REGISTERS);
}
// clang-format on
#undef TOST_WORD
#undef TOST_STEP
#undef TOST_ROWS
#undef TOST_CLEAR_ROW
#undef TOST_KEEP_ROW
#undef TOST_ADD_ROW
#undef TOST_WEIGHTS
#undef TOST_MORE_REGISTERS
#else
#define TOST_WHOLE_TILE 0
#endif

// At most kRows rows and kVectors vectors of columns.
template <int kRows, int kVectors>
HWY_INLINE void multiply_part(const Factors& f, int64_t rows, int64_t vectors, float* sums) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return multiply_part<kRows, kVectors - 1>(f, rows, vectors, sums);
  }
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_part<kRows - 1, kVectors>(f, rows, vectors, sums);
  }
  multiply<kRows, kVectors>(f, sums);
}

template <class Out, Finish kFinish>
class WideProduct {
 public:
  explicit WideProduct(const WideProductArgs& args) : args_(args), a_(args.finish) {}

  void run() {
    for (int64_t c = 0, count = 0; c < a_.columns; c += count) {
      const int64_t left = std::min(args_.panel_columns - c % args_.panel_columns, a_.columns - c);
      count = std::min(kTileColumns, left);
      count == kTileColumns ? tiles<false>(c, count) : tiles<true>(c, count);
    }
  }

 private:
  const float* weight_at(int64_t c) const {
    return args_.weight + c / args_.panel_columns * args_.panel_stride + c % args_.panel_columns;
  }

  template <bool kPartial>
  void tiles(int64_t c, int64_t count) {
    Column<float, Out, kFinish, kPartial> columns[kTileVectors];
    const auto lanes = [count](int v) {
      return std::clamp<int64_t>(count - v * kVectorLanes, 0, kVectorLanes);
    };
    const auto vectors = (count + kVectorLanes - 1) / kVectorLanes;
    for (int v = 0; v < kTileVectors; ++v) {
      columns[v].load_parameters(a_, c + v * kVectorLanes, lanes(v));
    }
    const float* weight = weight_at(c);
    // Prefetches a part of the next columns with every tile; after the last ones, lines that are in
    // the cache already.
    const bool last = c + count >= a_.columns;
    const auto* next = reinterpret_cast<const char*>(last ? weight : weight_at(c + count));
    const char* end = next + (last ? 0 : args_.inputs * args_.panel_columns * 4);
    for (int64_t row = 0; row < a_.rows; row += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, a_.rows - row);
      multiply({args_.x + row * args_.x_stride, args_.x_stride, weight, args_.panel_columns,
                args_.inputs, next},
               rows, vectors);
      if (next < end) next += args_.inputs / 4 * 64;
      const RowFactors none = row_factors<float>(nullptr, nullptr, 0);
      const float* sums = sums_;
      for (int64_t r = row; r < row + rows; ++r, sums += kTileColumns) {
        Out* out = static_cast<Out*>(a_.out) + r * a_.out_stride + c;
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          if (kPartial && v >= vectors) break;
          const int64_t at = v * kVectorLanes;
          columns[v].finish(sums + at, none, out + at, lanes(v));
        }
      }
    }
  }

  void multiply(const Factors& f, int64_t rows, int64_t vectors) {
#if TOST_WHOLE_TILE
    if (rows == kTileRows && vectors == kTileVectors && f.weight_stride == kTileColumns) {
      return multiply_tile(f, sums_);
    }
#endif
    multiply_part<kTileRows, kTileVectors>(f, rows, vectors, sums_);
  }

  const WideProductArgs& args_;
  const FinishRowsArgs& a_;
  alignas(64) float sums_[kTileRows * kTileColumns];
};
#undef TOST_WHOLE_TILE

void wide_rows(const WideProductArgs& args) {
  for_results(args.finish,
              [&]<class Out, Finish kFinish>() { WideProduct<Out, kFinish>(args).run(); });
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

HWY_EXPORT(wide_rows);

int64_t wide_columns() {
  return current_isa_target() == HWY_AVX3 ? 48 : 16;
}

void wide_product(const WideProductArgs& args) {
  const WorkTimer timer(Work::kProduct);
  TOST_DISPATCH(wide_rows)(args);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
