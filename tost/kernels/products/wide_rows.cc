// Computes tiles of rows and columns whose sums stay in registers: with AVX2 12 of 16 registers
// hold sums of 6 rows and 16 columns, with AVX-512 24 of 32 those of 8 rows and 48 columns.
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

// Keeps a vector in its register. Without it compilers move sums between registers and the stack,
// and broadcast a number of a row once for each product.
HWY_INLINE void pin(WideVec& value) {
#if defined(__x86_64__) && defined(__GNUC__) && HWY_TARGET != HWY_EMU128
  asm("" : "+v"(value.raw));
#endif
}

// Computes sums [kRows, kTileColumns] = x weight, of the first kVectors vectors of columns. Every
// loop over sums is unrolled, so that they are in registers.
template <int kRows, int kVectors>
HWY_NOINLINE void multiply(const Factors& f, float* HWY_RESTRICT sums) {
  const Wide d;
  WideVec sum[kRows][kVectors], w[kVectors];
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kVectors; ++i) sum[i / kVectors][i % kVectors] = hn::Zero(d);
  const float *HWY_RESTRICT x = f.x, *HWY_RESTRICT weight = f.weight;
  const int64_t x_stride = f.x_stride, weight_stride = f.weight_stride;
  const auto add_input = [&]() TOST_INLINE {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, weight + v * kVectorLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      WideVec number = hn::Set(d, x[r * x_stride]);
      pin(number);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::MulAdd(number, w[v], sum[r][v]);
        pin(sum[r][v]);
      }
    }
    ++x, weight += weight_stride;
  };
  const char* next = f.next;
  for (int64_t i = f.inputs / 4; i > 0; --i, next += 64) {
    __builtin_prefetch(next, 0, 2);
    add_input(), add_input(), add_input(), add_input();
  }
  for (int64_t i = f.inputs % 4; i > 0; --i) add_input();
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kVectors; ++i) {
    hn::StoreU(sum[i / kVectors][i % kVectors], d,
               sums + i / kVectors * kTileColumns + i % kVectors * kVectorLanes);
  }
}

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
    // Prefetches a part of the next columns with every tile; after the last ones, cached lines.
    const bool last = c + count >= a_.columns;
    const auto* next = reinterpret_cast<const char*>(last ? weight : weight_at(c + count));
    const char* end = next + (last ? 0 : args_.inputs * args_.panel_columns * 4);
    for (int64_t row = 0; row < a_.rows; row += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, a_.rows - row);
      multiply_part<kTileRows, kTileVectors>({args_.x + row * args_.x_stride, args_.x_stride,
                                              weight, args_.panel_columns, args_.inputs, next},
                                             rows, vectors, sums_);
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

  const WideProductArgs& args_;
  const FinishRowsArgs& a_;
  alignas(64) float sums_[kTileRows * kTileColumns];
};

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
