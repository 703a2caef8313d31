// Computes tiles of rows and columns (tile-inl.h) of packed float32 panels.
#include "tost/kernels/products/wide_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/wide_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/kernels/products/finish-inl.h"
#include "tost/kernels/products/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int64_t kTileColumns = kTileVectors * kVectorLanes;

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
      const Factors<float> factors{args_.x + row * args_.x_stride,
                                   args_.x_stride,
                                   weight,
                                   args_.panel_columns,
                                   args_.inputs,
                                   next,
                                   64,
                                   kTileColumns};
      multiply_part<kTileRows, kTileVectors, true>(factors, rows, vectors, sums_);
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
