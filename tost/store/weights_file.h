// Finds the weights that a path names, and reads them into a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/torch.h"

namespace tost {

enum class Weights { kRaw, kEma };

// The file that `path` means: itself, the model of a checkpoint folder (or the index of its shards,
// safetensors_index.h), or that of the best (else the latest, else the newest intact) checkpoint of
// a run folder. kEma: the averaged weights; a file of torch.save may hold both.
// Throws a data Error where there is none.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::kRaw);

// The same for reading it: also a data Error where it differs from the manifest of its checkpoint.
std::filesystem::path find_intact_model_file(const std::filesystem::path& path,
                                             Weights weights = Weights::kRaw);

// The checkpoint folder that holds the final model of a finished run; a data Error without one.
std::filesystem::path final_checkpoint(const std::filesystem::path& run);

// "vision", "language" or "sequence": the kind of the model file that `path` names (see
// find_model_file). Reads only names and shapes. Throws a data Error where there is no such file.
std::string model_kind(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Puts a model whose weights were read from `where` into evaluation mode. Throws a data Error that
// names the first tensor with a value that is not finite.
void finish_loading(torch::nn::Module& model, const std::string& where);

// Loads weights of a file, also quantised ones (quantized_file.h), into the model that the file
// describes, then calls finish_loading(). Throws a data Error about `where` where they do not fit
// it.
void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where);

}  // namespace tost
