// Weights in fewer bits inside a model file.
//
// Linear maps (and the token table of a language model, in eight bits even where the maps have
// four) are stored as
//   int8  NAME [out, in] int8 and NAME.scale [out] float32
//   int4  NAME [out, (in + 1) / 2] uint8 and NAME.scale [out, (in + 31) / 32] bfloat16
//   bf16  NAME [out, in] bfloat16
// in the form of ops/quantized_weight.h; everything else is float32 as ever. The metadata
// "tost.precision" names the precision. Readers get the float32 numbers that the stored ones stand
// for, and an engine of that precision rounds these to the same integers again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tost/nn/state_dict.h"
#include "tost/torch.h"

namespace tost {

inline constexpr char kPrecisionKey[] = "tost.precision";

// bf16, int8, int4.
std::vector<std::string> stored_precisions();

// What the metadata name, "fp32" where they name nothing. Throws a data Error about `where` for
// anything that is not a precision.
std::string stored_precision(const std::map<std::string, std::string>& metadata,
                             const std::string& where);

// What to compute in: `asked` unless it is empty, else what the file holds where that is among
// `known`, else fp32, which any file's numbers fit.
std::string chosen_precision(const std::string& asked, const std::string& stored,
                             const std::vector<std::string>& known);

// Those of a classifier: int8 by an inference engine alone.
std::vector<std::string> classifier_precisions(bool engine);

struct StoredWeights {
  StateDict tensors;
  int64_t rounded = 0;       // tensors held in fewer bits
  double largest_error = 0;  // of one weight, as a share of the largest of its tensor
  double mean_error = 0;     // mean size of an error over mean size of a weight
};

// The module's tensors as a file of this precision holds them. Throws a usage Error for an unknown
// precision, a data Error naming the tensor where a weight is not finite.
StoredWeights store_weights(const torch::nn::Module& module, const std::string& precision);

// What was read from a file, with every pair of integers and scales turned into the float32
// tensor that `model` has under that name. Throws a data Error about `where` naming the tensor for
// missing scales, wrong types or sizes, values that no weight has, and scales that are negative or
// not finite.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where);

}  // namespace tost
