// Computes blocks of 8 rows and 48 columns, whose sums are in 24 registers. Three vectors of the
// weight and eight numbers of the rows thus serve 24 products. The loop is written in assembly,
// because compilers move its sums between registers.
#include "tost/kernels/products/panel_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/panel_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/kernels/products/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 && defined(__GNUC__) && defined(__x86_64__)

// clang-format off
#define TOST_CLEAR(V) "vpxord %%zmm" #V ", %%zmm" #V ", %%zmm" #V "\n\t"
#define TOST_CLEAR_ROW(A, B, C) TOST_CLEAR(A) TOST_CLEAR(B) TOST_CLEAR(C)
// Adds the products of one number of a row, in register X, to the row's three sums.
#define TOST_ROW(X, ADDRESS, A, B, C)                  \
  "vbroadcastss " ADDRESS ", %%zmm" #X "\n\t"          \
  "vfmadd231ps %%zmm24, %%zmm" #X ", %%zmm" #A "\n\t"  \
  "vfmadd231ps %%zmm25, %%zmm" #X ", %%zmm" #B "\n\t"  \
  "vfmadd231ps %%zmm26, %%zmm" #X ", %%zmm" #C "\n\t"
// Adds the products of one input of all rows, whose offsets in bytes are X and WEIGHT.
#define TOST_INPUT(X, WEIGHT)                               \
  "vmovups " #WEIGHT "(%[weight]), %%zmm24\n\t"             \
  "vmovups " #WEIGHT "+64(%[weight]), %%zmm25\n\t"          \
  "vmovups " #WEIGHT "+128(%[weight]), %%zmm26\n\t"         \
  TOST_ROW(27, #X "(%[row0])", 0, 1, 2)                     \
  TOST_ROW(28, #X "(%[row0], %[bytes])", 3, 4, 5)           \
  TOST_ROW(29, #X "(%[row0], %[bytes], 2)", 6, 7, 8)        \
  TOST_ROW(30, #X "(%[row3])", 9, 10, 11)                   \
  TOST_ROW(31, #X "(%[row3], %[bytes])", 12, 13, 14)        \
  TOST_ROW(27, #X "(%[row3], %[bytes], 2)", 15, 16, 17)     \
  TOST_ROW(28, #X "(%[row6])", 18, 19, 20)                  \
  TOST_ROW(29, #X "(%[row6], %[bytes])", 21, 22, 23)
#define TOST_KEEP(V, AT) "vmovaps %%zmm" #V ", " #AT "(%[sums])\n\t"
#define TOST_KEEP_ROW(AT, A, B, C) \
  TOST_KEEP(A, AT) TOST_KEEP(B, AT + 64) TOST_KEEP(C, AT + 128)

// Computes sums [8, 48] = x weight. Prefetches a line from `next` on into the L2 cache with every
// four inputs.
inline void multiply(const float* x, int64_t x_stride, const float* weight, int64_t inputs,
                     const char* next, float* sums) {
  const float *row0 = x, *row3 = x + 3 * x_stride, *row6 = x + 6 * x_stride;
  int64_t steps = inputs / kPanelInputs;
  asm volatile(
      TOST_CLEAR_ROW(0, 1, 2) TOST_CLEAR_ROW(3, 4, 5) TOST_CLEAR_ROW(6, 7, 8)
      TOST_CLEAR_ROW(9, 10, 11) TOST_CLEAR_ROW(12, 13, 14) TOST_CLEAR_ROW(15, 16, 17)
      TOST_CLEAR_ROW(18, 19, 20) TOST_CLEAR_ROW(21, 22, 23)
      ".p2align 5\n"
      "1:\n\t"
      "prefetcht1 (%[next])\n\t"
      TOST_INPUT(0, 0) TOST_INPUT(4, 192) TOST_INPUT(8, 384) TOST_INPUT(12, 576)
      "add $16, %[row0]\n\t"
      "add $16, %[row3]\n\t"
      "add $16, %[row6]\n\t"
      "add $768, %[weight]\n\t"
      "add $64, %[next]\n\t"
      "dec %[steps]\n\t"
      "jnz 1b\n\t"
      TOST_KEEP_ROW(0, 0, 1, 2) TOST_KEEP_ROW(192, 3, 4, 5) TOST_KEEP_ROW(384, 6, 7, 8)
      TOST_KEEP_ROW(576, 9, 10, 11) TOST_KEEP_ROW(768, 12, 13, 14) TOST_KEEP_ROW(960, 15, 16, 17)
      TOST_KEEP_ROW(1152, 18, 19, 20) TOST_KEEP_ROW(1344, 21, 22, 23)
      : [row0] "+r"(row0), [row3] "+r"(row3), [row6] "+r"(row6), [weight] "+r"(weight),
        [next] "+r"(next), [steps] "+r"(steps)
      : [bytes] "r"(x_stride * 4), [sums] "r"(sums)
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18",
        "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28",
        "xmm29", "xmm30", "xmm31");
}
// clang-format on

template <class Out, Finish kFinish>
class PanelProduct {
 public:
  explicit PanelProduct(const PanelProductArgs& args) : args_(args), a_(args.finish) {}

  void run() {
    const int64_t panels = a_.columns / kPanelColumns;
    for (int64_t p = 0; p < panels; ++p) panel(p, p + 1 == panels);
  }

 private:
  void panel(int64_t index, bool last) {
    const int64_t column = index * kPanelColumns;
    for (int v = 0; v < kVectors; ++v) columns_[v].load_parameters(a_, column + v * kLanes, kLanes);
    const float* weight = args_.weight + index * args_.panel_stride;
    // Prefetches a part of the next panel with every block of rows.
    const auto* next = reinterpret_cast<const char*>(last ? weight : weight + args_.panel_stride);
    const char* end = next + (last ? 0 : args_.inputs * kPanelColumns * 4);
    for (int64_t row = 0; row < a_.rows; row += kRows) {
      // Shifts the last block over the previous one, so that every block is whole.
      const int64_t first = std::min(row, a_.rows - kRows);
      multiply(args_.x + first * args_.x_stride, args_.x_stride, weight, args_.inputs, next, sums_);
      if (next < end) next += args_.inputs / kPanelInputs * 64;
      finish(row, first + kRows, sums_ + (row - first) * kPanelColumns, column);
    }
  }

  HWY_INLINE void finish(int64_t row, int64_t last, const float* sums, int64_t column) const {
    const RowFactors none = row_factors<float>(nullptr, nullptr, 0);
    for (; row < last; ++row, sums += kPanelColumns) {
      Out* out = static_cast<Out*>(a_.out) + row * a_.out_stride + column;
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        columns_[v].finish(sums + v * kLanes, none, out + v * kLanes, kLanes);
      }
    }
  }

  static constexpr int64_t kRows = kFewestPanelRows, kLanes = 16;
  static constexpr int kVectors = kPanelColumns / kLanes;
  const PanelProductArgs& args_;
  const FinishRowsArgs& a_;
  Column<float, Out, kFinish, false> columns_[kVectors];
  alignas(64) float sums_[kRows * kPanelColumns];
};

inline void product(const PanelProductArgs& args) {
  for_results(args.finish,
              [&]<class Out, Finish kFinish>() { PanelProduct<Out, kFinish>(args).run(); });
}

#endif

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

#if (HWY_TARGETS & HWY_AVX3) && defined(__GNUC__) && defined(__x86_64__)

bool has_panel_product() {
  return current_isa_target() == HWY_AVX3;
}

void panel_product(const PanelProductArgs& args) {
  const WorkTimer timer(Work::kProduct);
  N_AVX3::product(args);
}

#else

bool has_panel_product() {
  return false;
}
void panel_product(const PanelProductArgs&) {}

#endif

}  // namespace tost::kernels
#endif  // HWY_ONCE
