// Computes tiles of rows and columns (tile-inl.h) of packed panels.
#include "tost/kernels/products/wide_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/wide_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/kernels/products/finish-inl.h"
#include "tost/kernels/products/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// T is a word of the weight.
template <class T, class Out, Finish kFinish>
class Product {
 public:
  explicit Product(const ProductArgs& args) : args_(args), a_(args.finish) {}

  void run() {
    if (a_.rows == 0) return;
    const int64_t panel = args_.panel_columns;
    for (int64_t c = 0, count = 0; c < a_.columns; c += count) {
      const int64_t left = a_.columns - c, in_panel = kApart ? left : panel - c % panel;
      count = std::min({kColumns, left, in_panel});
      count == kColumns ? tiles<false>(c, count) : tiles<true>(c, count);
    }
  }

 private:
  using Sum = std::conditional_t<kIntegers<T>, int32_t, float>;
  static constexpr int64_t kColumns = kTileVectors * kVectorLanes;  // of a tile
  static constexpr bool kApart = kGroup<T> && kVectorLanes == kGroupColumns;

  const T* weight_at(int64_t c) const {
    return static_cast<const T*>(args_.weight) + c / args_.panel_columns * args_.panel_stride +
           c % args_.panel_columns;
  }

  template <bool kPartial>
  void tiles(int64_t c, int64_t count) {
    Column<Sum, Out, kFinish, kPartial> columns[kTileVectors];
    const auto lanes = [count](int v) {
      return std::clamp<int64_t>(count - v * kVectorLanes, 0, kVectorLanes);
    };
    const auto vectors = (count + kVectorLanes - 1) / kVectorLanes;
    for (int v = 0; v < kTileVectors; ++v) {
      columns[v].load_parameters(a_, c + v * kVectorLanes, lanes(v));
    }
    const T* weight = weight_at(c);
    // Prefetches equal parts of the next columns with the tiles; after the last ones, those of the
    // next product, or cached lines.
    const bool last = c + count >= a_.columns, more = last && args_.next.data != nullptr;
    const bool whole = args_.panel_stride == args_.inputs * args_.panel_columns;
    const int64_t adjacent = kApart && whole ? kColumns : args_.panel_columns;
    const auto* next = more ? args_.next.data
                            : reinterpret_cast<const char*>(last ? weight : weight_at(c + count));
    const char* end = next + (more ? args_.next.bytes : last ? 0 : args_.inputs * adjacent * 4);
    const int64_t next_bytes = divide_up(adjacent, 4 * divide_up(a_.rows, kTileRows)) * 64;
    for (int64_t row = 0; row < a_.rows; row += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, a_.rows - row);
      Factors<T, 1, kApart> factors{static_cast<const float*>(args_.x) + row * args_.x_stride,
                                    args_.x_stride,
                                    weight,
                                    args_.panel_columns,
                                    args_.inputs,
                                    next,
                                    next_bytes,
                                    kColumns};
      factors.vector_stride = args_.panel_stride;
      auto* sums = reinterpret_cast<float*>(sums_);
      multiply_part<kTileRows, kTileVectors, true>(factors, rows, vectors, sums);
      if (next < end) next += args_.inputs / 4 * next_bytes;
      finish(columns, row, rows, c, vectors, lanes);
    }
  }

  template <bool kPartial, class Lanes>
  HWY_INLINE void finish(const Column<Sum, Out, kFinish, kPartial> (&columns)[kTileVectors],
                         int64_t first, int64_t rows, int64_t c, int64_t vectors,
                         const Lanes& lanes) const {
    const Sum* sums = sums_;
    for (int64_t r = first; r < first + rows; ++r, sums += kColumns) {
      const RowFactors factors = row_factors<Sum>(a_.row_scale, a_.row_zero, r);
      Out* out = static_cast<Out*>(a_.out) + r * a_.out_stride + c;
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        if (kPartial && v >= vectors) break;
        const int64_t at = v * kVectorLanes;
        columns[v].finish(sums + at, factors, out + at, lanes(v));
      }
    }
  }

  const ProductArgs& args_;
  const FinishRowsArgs& a_;
  alignas(64) Sum sums_[kTileRows * kColumns];
};

template <class T>
void product_of(const ProductArgs& args) {
  for_results(args.finish,
              [&]<class Out, Finish kFinish>() { Product<T, Out, kFinish>(args).run(); });
}

void run_product(const ProductArgs& args) {
#if defined(__x86_64__) && HWY_TARGET == HWY_AVX3
  if (args.numbers == Numbers::kBfloat16) return product_of<Bf16Group>(args);
  if (args.numbers == Numbers::kInt8) return product_of<Int8Group>(args);
#elif defined(__x86_64__) && HWY_TARGET == HWY_AVX2
  if (args.numbers == Numbers::kInt16) return product_of<Int16Group>(args);
#endif
  product_of<float>(args);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/base/error.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/tile_rows.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(run_product);

// Whether the tile units take a product: whole steps of inputs.
bool on_tiles(const ProductArgs& args) {
  return (args.numbers == Numbers::kBfloat16 || args.numbers == Numbers::kInt8) &&
         args.inputs % kTileInputs == 0 && args.inputs > 0 && has_tiles();
}

}  // namespace

bool multiplies(Numbers numbers) {
  const int64_t target = current_isa_target();
#if defined(__x86_64__) && defined(__GNUC__)
  if (numbers == Numbers::kInt16) return target == HWY_AVX2;
  if (numbers == Numbers::kBfloat16) {
    return target == HWY_AVX3 && __builtin_cpu_supports("avx512bf16") != 0;
  }
  if (numbers == Numbers::kInt8) {
    return target == HWY_AVX3 && __builtin_cpu_supports("avx512vnni") != 0;
  }
#endif
  return numbers == Numbers::kFloat32;
}

int64_t wide_columns() {
  return current_isa_target() == HWY_AVX3 ? 48 : 16;
}

int64_t shared_columns(Numbers numbers) {
  return numbers == Numbers::kFloat32 || !has_tiles() ? wide_columns() : kTileColumns;
}

void vector_product(const ProductArgs& args) {
  if (!multiplies(args.numbers)) fail_usage("These weights were packed for another TOST_ISA.");
  const WorkTimer timer(Work::kProduct);
  TOST_DISPATCH(run_product)(args);
}

void product(const ProductArgs& args) {
  on_tiles(args) ? tile_product(args) : vector_product(args);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
