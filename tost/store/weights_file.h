// Reads the weights of a file into a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/engine/model_files.h"
#include "tost/torch.h"

namespace tost {

// The kind ("vision", "language" or "sequence") of the model file for `path` (see find_model_file).
// Reads only names and shapes. Throws a data Error if there is no such file.
std::string model_kind(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Puts a model whose weights were read from `where` into evaluation mode. Throws a data Error that
// names the first tensor with a value that is not finite.
void finish_loading(torch::nn::Module& model, const std::string& where);

// Loads weights of a file, also quantised ones (quantized_file.h), into the model that the file
// describes, then calls finish_loading(). Throws a data Error about `where` if the weights do not
// fit the model.
void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where);

}  // namespace tost
