// Finds the weights that a path names, and reads them into a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/torch.h"

namespace tost {

enum class Weights { kRaw, kEma };

// The weights file that `path` means: the file itself, the model of a checkpoint folder (or the
// index of its shards, safetensors_index.h), or that of the best (else the latest, else the newest
// intact) checkpoint of a run folder. kEma selects averaged weights; a file of torch.save may hold
// both. Throws a data Error if there is no such file.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::kRaw);

// As find_model_file(), but throws a data Error if the file differs from its checkpoint's manifest.
std::filesystem::path find_intact_model_file(const std::filesystem::path& path,
                                             Weights weights = Weights::kRaw);

// The checkpoint folder with the final model of a finished run. Throws a data Error without one.
std::filesystem::path final_checkpoint(const std::filesystem::path& run);

// The kind of the model file that `path` names (see find_model_file): "vision", "language" or
// "sequence". Reads only names and shapes. Throws a data Error if there is no such file.
std::string model_kind(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Puts a model whose weights were read from `where` into evaluation mode. Throws a data Error that
// names the first tensor with a value that is not finite.
void finish_loading(torch::nn::Module& model, const std::string& where);

// Loads a file's weights, also quantised ones (quantized_file.h), into the model that the file
// describes, then calls finish_loading(). Throws a data Error about `where` if they do not fit.
void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where);

}  // namespace tost
