// Weights in fewer bits inside a model file.
//
// Linear maps and token tables have the types of nn/precision.h: bfloat16, or integers NAME and
// NAME.scale as the values and scales of ops/quantized_weight.h. Everything else is float32. The
// metadata "tost.precision" names the precision. Readers get the float32 numbers that the stored
// ones encode. An engine of that precision rounds these to the same integers again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tost/engine/metadata.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/torch.h"

namespace tost {

// One of stored_precisions() by its name. Throws a usage Error for others.
Precision storable_precision(const std::string& name);

// The precision to compute in: `requested` unless it is empty, else the precision of the file if it
// is among `known`, else fp32, which represents any file's numbers. Throws a usage Error if
// `requested` is no name.
Precision chosen_precision(const std::string& requested, Precision stored, const Precisions& known);

struct StoredWeights {
  StateDict tensors;
  int64_t rounded = 0;       // tensors held in fewer bits
  double largest_error = 0;  // of one weight, as a share of the largest of its tensor
  double mean_error = 0;     // mean size of an error over mean size of a weight
};

// The module's tensors as a file of this precision holds them. Throws a usage Error for fp32, a
// data Error naming the tensor where a weight is not finite.
StoredWeights store_weights(const torch::nn::Module& module, Precision precision);

// Replaces every pair of integers and scales of a file by the float32 tensor that `model` has under
// that name. Throws a data Error about `where` naming the tensor for missing scales, wrong types or
// sizes, values that no weight has, and scales that are negative or not finite.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where);

}  // namespace tost
