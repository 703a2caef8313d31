// Weights in fewer bits inside a model file.
//
// Linear maps and token tables have the types of nn/precision.h: bfloat16, or integers NAME and
// NAME.scale as the values and scales of ops/quantized_weight.h. Everything else is float32 as
// ever. The metadata "tost.precision" names the precision. Readers get the float32 numbers that the
// stored ones stand for, and an engine of that precision rounds these to the same integers again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/torch.h"

namespace tost {

inline constexpr char kPrecisionKey[] = "tost.precision";

// What the metadata name, fp32 where they name nothing. Throws a data Error about `where` for
// anything that is not a precision.
Precision stored_precision(const std::map<std::string, std::string>& metadata,
                           const std::string& where);

// One of stored_precisions() by its name. Throws a usage Error for others.
Precision storable_precision(const std::string& name);

// What to compute in: `asked` unless it is empty, else what the file holds where that is among
// `known`, else fp32, which any file's numbers fit. Throws a usage Error if `asked` is no name.
Precision chosen_precision(const std::string& asked, Precision stored, const Precisions& known);

struct StoredWeights {
  StateDict tensors;
  int64_t rounded = 0;       // tensors held in fewer bits
  double largest_error = 0;  // of one weight, as a share of the largest of its tensor
  double mean_error = 0;     // mean size of an error over mean size of a weight
};

// The module's tensors as a file of this precision holds them. Throws a usage Error for fp32, a
// data Error naming the tensor where a weight is not finite.
StoredWeights store_weights(const torch::nn::Module& module, Precision precision);

// What was read from a file, with every pair of integers and scales turned into the float32
// tensor that `model` has under that name. Throws a data Error about `where` naming the tensor for
// missing scales, wrong types or sizes, values that no weight has, and scales that are negative or
// not finite.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where);

}  // namespace tost
