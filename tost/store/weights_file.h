// Reads and writes files of weights, also in fewer bits.
//
// Linear maps and token tables are stored in bfloat16, or as the integers NAME and the scales
// NAME.scale of engine/quantized_weight.h. Everything else is float32. The metadata
// "tost.precision" names the precision. Readers get the float32 values of the stored weights. An
// engine of the file's precision rounds the float32 values to the stored integers again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tost/engine/metadata.h"
#include "tost/engine/model_files.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/torch.h"

namespace tost {

// The kind ("vision", "language" or "sequence") of the model file for `path` (see find_model_file).
// Reads only names and shapes. Throws a data Error if there is no such file.
std::string model_kind(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Puts a model whose weights were read from `where` into evaluation mode. Throws a data Error that
// names the first tensor with a value that is not finite.
void finish_loading(torch::nn::Module& model, const std::string& where);

// Loads weights of a file, also quantised ones, into the model that the file
// describes, then calls finish_loading(). Throws a data Error about `where` if the weights do not
// fit the model.
void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where);

// Finds a stored precision by name. Throws a usage Error for an unknown name.
Precision storable_precision(const std::string& name);

struct StoredWeights {
  StateDict tensors;
  int64_t rounded = 0;       // tensors held in fewer bits
  double largest_error = 0;  // of one weight, as a share of the largest of its tensor
  double mean_error = 0;     // mean size of an error over mean size of a weight
};

// The module's tensors in the form that a file of the precision stores. Throws a usage Error for
// fp32, and a data Error naming a tensor with a weight that is not finite.
StoredWeights store_weights(const torch::nn::Module& module, Precision precision);

// Replaces every pair of integers and scales of a file by a float32 tensor of the shape that
// `model` has for this name. Throws a data Error about `where` naming the tensor for missing
// scales, wrong types or sizes, values that no weight has, and scales that are negative or not
// finite.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where);

}  // namespace tost
