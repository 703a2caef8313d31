// y = x Wᵀ + b with the weight laid out once for the matrix units of this CPU, on tiles of rows:
// what a network repeats for every batch is done once, and what follows the product (activation,
// residual) is applied while its sums are in the L1 cache.
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
  const float* scale = nullptr;   // [rows], kInt8 alone
  const int32_t* zero = nullptr;  // [rows], kInt8 alone
};

// Where the result goes; see FinishRowsArgs.
struct PackedResult {
  void* data = nullptr;  // [rows, outputs], or fewer columns for a range of panels
  int64_t stride = 0;
  int64_t first_column = 0;  // of the whole result, the one that `data` begins with
  kernels::DType dtype = kernels::DType::kFloat32;
  kernels::Activation activation = kernels::Activation::kNone;
  bool add = false;              // onto what stands there
  const float* gamma = nullptr;  // [outputs], with `add`
  // Weights that the thread wants next, see ahead(): a hint that products on tile units follow.
  kernels::FetchAhead next = {};
};

class PackedLinear {
 public:
  static constexpr int64_t kInputStep = 64;

  PackedLinear() = default;
  // weight [out, in] floating on the CPU, bias [out] or undefined; both are copied. kInt8: weights
  // become integers as in quantize_int8(). Throws a usage Error for other shapes, and a data Error
  // if weights that are to become integers are not finite.
  PackedLinear(const at::Tensor& weight, const at::Tensor& bias, Packing packing);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  Packing packing() const { return packing_; }
  bool defined() const { return outputs_ > 0; }
  // Whether a row's result is the same bit for bit whatever the number of rows.
  bool rows_alone() const { return tiles_; }
  // Of the weights in memory.
  int64_t bytes() const;

  // Panels of columns, the unit in which the outputs of one product can be shared among threads.
  int64_t panels() const { return panels_; }
  // Panels that have at most `columns` columns together, but at least one and no more than all.
  int64_t panels_within(int64_t columns) const {
    return std::clamp<int64_t>(columns / panel_columns_, 1, panels_);
  }

  // Bytes of 64-byte aligned scratch that run() wants for at most `rows` rows.
  int64_t scratch_bytes(int64_t rows) const;

  // The whole product of these rows on the calling thread, or its panels [first, last). Does not
  // allocate after the first calls with a number of rows (kernels are compiled then and kept per
  // thread). To rounding, a row's result does not depend on the number of rows; for the same
  // number of rows it is the same bit for bit.
  void run(const PackedRows& x, const PackedResult& result, void* scratch) const {
    run(x, result, scratch, 0, panels_);
  }
  void run(const PackedRows& x, const PackedResult& result, void* scratch, int64_t first,
           int64_t last) const;

  // sums += x Wᵀ over `count` inputs from `first` on, which are the columns of x, bias left out:
  // the residual stream itself can be the sums. `first` and, but for the last inputs, `count` are
  // multiples of kInputStep.
  void accumulate(const PackedRows& x, float* sums, int64_t stride, int64_t first, int64_t count,
                  void* scratch, const kernels::FetchAhead& next = {}) const;

  // The weights that run() reads for the panels [first, last) as far as there are such, or all; and
  // accumulate() for these inputs. Nothing where no product could fetch them.
  kernels::FetchAhead ahead(int64_t first, int64_t last) const;
  kernels::FetchAhead ahead() const { return ahead(0, panels_); }
  kernels::FetchAhead ahead_of_inputs(int64_t first, int64_t count) const;

  // Columns of a panel but for the last one.
  int64_t panel_columns() const { return panel_columns_; }

  // Gives the matrix units back; each thread that called run() calls it when it is done for a while
  // (once a region, not once a product).
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
