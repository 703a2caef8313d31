// y = x Wᵀ + b on tiles of rows, with a weight in the layout that this CPU multiplies. The layout
// is computed once, not for every batch. The epilogue (activation, residual) runs while the sums
// are in the L1 cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tost/engine/array.h"
#include "tost/engine/precision.h"
#include "tost/engine/weight_source.h"
#include "tost/kernels/products/wide_rows.h"
#include "tost/kernels/row_ops.h"

namespace tost {

// Whether products of a packing multiply its numbers without conversion here; else they take the
// time of float32. And the method, in words.
bool multiplies_as_packed(Packing packing);
const char* product_method(Packing packing);

// Rows [rows, inputs] of the element type of the packing: float, bfloat16 or uint8.
struct PackedRows {
  int64_t rows = 0;
  const void* data = nullptr;
  int64_t stride = 0;             // in elements, at least `inputs`, and a multiple of 4 bytes
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
  // Weights that the thread needs next (see ahead()), which products prefetch.
  kernels::FetchAhead next = {};
};

class PackedLinear {
 public:
  static constexpr int64_t kInputStep = 64;

  PackedLinear() = default;
  // weight [out, in] floating, bias [out] or undefined; both are copied. kInt8: weights become
  // integers as in quantize_int8(). Throws a usage Error for other shapes, and a data Error if
  // weights that are to become integers are not finite.
  PackedLinear(const Array& weight, const Array& bias, Packing packing);
  // A map, or, if `gamma` [out] is defined, the map times gamma without its bias.
  PackedLinear(const StepWeight& map, const Array& gamma, Packing packing);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  Packing packing() const { return packing_; }
  bool defined() const { return outputs_ > 0; }
  // The size of the weights in memory.
  int64_t bytes() const { return weight_.bytes(); }

  // The number of panels of columns: the unit by which threads share the outputs of a product.
  int64_t panels() const { return panels_; }
  // The number of panels with at most `columns` columns in all; at least 1 and at most panels().
  int64_t panels_within(int64_t columns) const {
    return std::clamp<int64_t>(columns / panel_columns_, 1, panels_);
  }

  // The bytes of 64-byte aligned workspace that run() needs for at most `rows` rows.
  int64_t scratch_bytes(int64_t rows) const;

  // Computes the product of the rows x, or its panels [first, last), on the calling thread. Does
  // not allocate. A row's result does not depend on other rows.
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
  // be prefetched. Empty without tile units, where it gains nothing.
  kernels::FetchAhead ahead(int64_t first, int64_t last) const;
  kernels::FetchAhead ahead() const { return ahead(0, panels_); }
  kernels::FetchAhead ahead_of_inputs(int64_t first, int64_t count) const;

  // The number of columns of every panel except the last one.
  int64_t panel_columns() const { return panel_columns_; }

 private:
  class Run;
  kernels::Numbers numbers_for(Packing packing) const;
  template <class T, class Row>
  void lay_out(TorchDtype dtype, const Row& row);
  void round_to_int8(const Array& weight);
  bool groups() const { return numbers_ != kernels::Numbers::kFloat32; }
  bool integers() const { return groups() && packing_ == Packing::kInt8; }
  int64_t words() const { return inputs_ / kernels::word_inputs(numbers_); }  // of the inputs

  int64_t inputs_ = 0, outputs_ = 0, panels_ = 0;
  int64_t panel_columns_ = 0;
  Packing packing_ = Packing::kFloat32;
  kernels::Numbers numbers_ = kernels::Numbers::kFloat32;  // that are multiplied
  Array weight_;                                           // panels one after the other
  Array bias_;                                             // [out] float32, undefined without
  Array column_scale_;                                     // [out] float32, kInt8
  Array column_sums_;  // [steps + 1, out] int32, integers: of all weights before a step of inputs
};

// A map times gamma [out], whose results are added to rows that get its bias later: `shift`, the
// bias times gamma, undefined without a bias.
PackedLinear packed_onto_rows(const StepWeight& map, const Array& gamma, Packing packing,
                              Array& shift);

}  // namespace tost
