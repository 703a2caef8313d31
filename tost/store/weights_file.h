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
#include <memory>
#include <string>

#include "tost/engine/metadata.h"
#include "tost/engine/model_files.h"
#include "tost/nn/layers.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"
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

// A model with what its file says of it.
template <class Model, class Info>
struct Loaded {
  std::shared_ptr<Model> model;  // float32, in evaluation mode
  Info info;
  std::filesystem::path file;              // the file read
  Precision precision = Precision::kFp32;  // that the file holds its weights in
};

// Loads a file of this program. `info_of` reads its metadata, and `make` makes the model of a
// configuration. Throws data Errors that name the file.
template <class Model, class Info>
Loaded<Model, Info> load_described(
    const std::filesystem::path& file,
    Info (*info_of)(const std::map<std::string, std::string>& metadata, const std::string& where),
    std::shared_ptr<Model> (*make)(const decltype(Info::config)& config, WeightInit init)) {
  const std::string where = cat("'", file.string(), "'");
  const SafetensorsFile content = load_safetensors(file);
  Loaded<Model, Info> loaded{.info = info_of(content.metadata, where), .file = file};
  loaded.model = read_from(where, [&] { return make(loaded.info.config, WeightInit::kNone); });
  take_described_weights(*loaded.model, content.tensors, where);
  loaded.precision = stored_precision(content.metadata, where);
  return loaded;
}

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

}  // namespace tost
