// Stores weights in fewer bits inside a model file.
//
// Linear maps and token tables have the types of nn/precision.h: bfloat16, or integers NAME and
// NAME.scale as the values and scales of ops/quantized_weight.h. All other tensors are float32. The
// metadata "tost.precision" name the precision. Readers get float32 numbers, which an engine of
// that precision rounds to the stored integers again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/torch.h"

namespace tost {

inline constexpr char kPrecisionKey[] = "tost.precision";

// The precision that the metadata name, or fp32. Throws a data Error about `where` for any other
// text.
Precision stored_precision(const std::map<std::string, std::string>& metadata,
                           const std::string& where);

// The precision of this name among stored_precisions(). Throws a usage Error for other names.
Precision storable_precision(const std::string& name);

// The precision to compute in: `requested` unless it is empty, else that of the file if it is among
// `known`, else fp32. Throws a usage Error if `requested` is not the name of a precision.
Precision chosen_precision(const std::string& requested, Precision stored, const Precisions& known);

struct StoredWeights {
  StateDict tensors;
  int64_t rounded = 0;       // tensors held in fewer bits
  double largest_error = 0;  // of one weight, as a share of the largest of its tensor
  double mean_error = 0;     // mean size of an error over mean size of a weight
};

// The module's tensors in the form of a file of this precision. Throws a usage Error for fp32, and
// a data Error naming the tensor if a weight is not finite.
StoredWeights store_weights(const torch::nn::Module& module, Precision precision);

// Replaces every pair of integers and scales by the float32 tensor that `model` has under that
// name. Throws a data Error about `where` naming the tensor for missing, negative or non-finite
// scales, wrong types or sizes, and values that quantisation never gives.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where);

}  // namespace tost
