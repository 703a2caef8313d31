// y = x Wᵀ + b on tiles of rows, with a weight in the layout of this CPU's matrix units. The layout
// is computed once, not for every batch. The epilogue (activation, residual) runs while the sums
// are in the L1 cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "tost/kernels/products/tile_rows.h"
#include "tost/kernels/row_ops.h"
#include "tost/ops/product_support.h"

namespace tost {

// Rows [rows, inputs] of the element type of the packing: float, bfloat16 or uint8.
struct PackedRows {
  int64_t rows = 0;
  const void* data = nullptr;
  int64_t stride = 0;             // in elements, at least `inputs`
  const float* scale = nullptr;   // [rows], only kInt8
  const int32_t* zero = nullptr;  // [rows], only kInt8
};

// The destination of the result, as FinishRowsArgs describes.
struct PackedResult {
  void* data = nullptr;  // [rows, outputs], or fewer columns for a range of panels
  int64_t stride = 0;
  int64_t first_column = 0;  // of the whole result, the one that `data` begins with
  kernels::DType dtype = kernels::DType::kFloat32;
  kernels::Activation activation = kernels::Activation::kNone;
  bool add = false;              // adds to the previous values
  const float* gamma = nullptr;  // [outputs], with `add`
  // Weights that the thread needs next (see ahead()), which products on tile units prefetch.
  kernels::FetchAhead next = {};
};

class PackedLinear {
 public:
  static constexpr int64_t kInputStep = 64;

  PackedLinear() = default;
  // Copies a floating-point weight [out, in] on the CPU, and bias [out], which may be undefined.
  // kInt8 rounds weights to integers by quantize_int8(). Throws a usage Error for other shapes, and
  // a data Error if kInt8 gets weights that are not finite.
  PackedLinear(const at::Tensor& weight, const at::Tensor& bias, Packing packing);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  Packing packing() const { return packing_; }
  bool defined() const { return outputs_ > 0; }
  // Whether a row's result has the same bits for every number of rows.
  bool rows_alone() const { return tiles_; }
  // The size of the weights in memory.
  int64_t bytes() const;

  // The number of panels of columns: the unit by which threads share the outputs of a product.
  int64_t panels() const { return panels_; }
  // The number of panels with at most `columns` columns in all; at least 1 and at most panels().
  int64_t panels_within(int64_t columns) const {
    return std::clamp<int64_t>(columns / panel_columns_, 1, panels_);
  }

  // The bytes of 64-byte aligned workspace that run() needs for at most `rows` rows.
  int64_t scratch_bytes(int64_t rows) const;

  // Computes the product of the rows x, or its panels [first, last), on the calling thread.
  // Allocates only in the first calls with a number of rows, which compile kernels for this thread.
  // A row's result has the same bits for the same number of rows; other numbers of rows change only
  // rounding.
  void run(const PackedRows& x, const PackedResult& result, void* scratch) const {
    run(x, result, scratch, 0, panels_);
  }
  void run(const PackedRows& x, const PackedResult& result, void* scratch, int64_t first,
           int64_t last) const;

  // Adds to `sums`, which can be the residual stream, x Wᵀ over `count` inputs from `first` on. x
  // has only the columns of the selected inputs, and the bias is left out. `first` is a multiple of
  // kInputStep, and so is `count` except for the last inputs.
  void accumulate(const PackedRows& x, float* sums, int64_t stride, int64_t first, int64_t count,
                  void* scratch, const kernels::FetchAhead& next = {}) const;

  // The weights that run() reads for the panels [first, last), or accumulate() for some inputs, to
  // be prefetched. Empty if no product can prefetch them.
  kernels::FetchAhead ahead(int64_t first, int64_t last) const;
  kernels::FetchAhead ahead() const { return ahead(0, panels_); }
  kernels::FetchAhead ahead_of_inputs(int64_t first, int64_t count) const;

  // The number of columns of every panel except the last one.
  int64_t panel_columns() const { return panel_columns_; }

  // Releases the matrix units; a thread that called run() must call this once at the end of a
  // parallel region.
  static void release();

 private:
  class Run;

  void round_to_int8(at::Tensor& weight);
  int64_t element_bytes() const;  // of narrow types
  int64_t block_bytes() const;    // of kTileColumns columns

  int64_t inputs_ = 0, outputs_ = 0, panels_ = 0;
  int64_t panel_columns_ = 0;
  Packing packing_ = Packing::kFloat32;
  bool native_ = false;      // by a product of the packing's numbers, else in float32
  bool pairs_ = false;       // by pair_product(), kInt8
  bool tiles_ = false;       // by tile_product(), which includes what follows
  bool fused_ = false;       // whole panels by panel_product(), likewise
  at::Tensor weight_;        // panels one after the other
  at::Tensor bias_;          // [out] float32, undefined without
  at::Tensor column_scale_;  // [out] float32, kInt8
  at::Tensor column_sums_;  // [steps + 1, out] int32, kInt8: of all weights before a step of inputs
};

}  // namespace tost
