// Finds the weights of a model by their names in files.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "tost/engine/array.h"
#include "tost/engine/quantized_weight.h"
#include "tost/kernels/row_ops.h"

namespace tost {

// One linear map in the form that a decoding step needs.
struct StepWeight {
  int64_t outputs() const { return panelled > 0 || !values.defined() ? panelled : values.size(0); }
  bool defined() const { return values.defined(); }
  int64_t bytes() const { return values.bytes() + scales.bytes() + bias.bytes(); }
  Array rounded() const;                     // [out, in] float32
  void row(int64_t index, float* to) const;  // one of its rows in float32
  // Copies the values into panels (not those of kInt4), and forgets the pages of their file.
  void lay_out();

  kernels::WeightType type = kernels::WeightType::kFloat32;
  int64_t inputs = 0;
  // As kernels/products/few_rows.h has them; but before lay_out() all values are in rows.
  Array values, scales;
  int64_t panelled = 0;  // the outputs, if the values are panels
  Array bias;            // [out] float32, rounded as the values are; may be undefined
};

// The weights of a LayerNorm.
struct NormWeight {
  // Of float32 rows x to rows y, both contiguous; the types and strides are the caller's to change.
  kernels::NormRowsArgs args(const float* x, int64_t rows, void* y) const;

  Array weight, bias;  // [C] float32; bias may be undefined
  float eps = 1e-6f;
};

// Throws a data Error that names the tensor where a value is not finite and cannot become integers.
void check_roundable(const Array& wide, const std::string& name);

// Every function throws a data Error that names the tensor where it is missing, has other sizes or
// holds values that are not finite.
class WeightSource {
 public:
  // `where` names the file in messages. `finite` says that the values were checked before.
  WeightSource(Arrays arrays, std::string where, bool finite = false)
      : arrays_(std::move(arrays)), where_(std::move(where)), finite_(finite) {}

  bool has(const std::string& name) const { return arrays_.count(name) != 0; }
  // An array in float32; the stored array itself if it is float32.
  Array values(const std::string& name, const Array::Shape& shape);
  // Reads `name`.weight [out, in] and, with `bias`, `name`.bias [out] in the type `type`. Stored
  // integers of the same type are used unchanged; other weights are rounded again.
  StepWeight map(const std::string& name, int64_t out, int64_t in, bool bias,
                 kernels::WeightType type);
  // Copies of `name`.weight and with `bias` `name`.bias [dim].
  NormWeight norm(const std::string& name, int64_t dim, bool bias = true, float eps = 1e-6f);
  // Counts an array that the engine needs not as used.
  void skip(const std::string& name) { used_.insert(name); }
  // Throws where an array was not used.
  void finish() const;

 private:
  const Array& find(const std::string& name);
  void check_finite(const std::string& name, const Array& values) const;

  Arrays arrays_;
  std::string where_;
  bool finite_;
  std::set<std::string> used_;
};

}  // namespace tost
