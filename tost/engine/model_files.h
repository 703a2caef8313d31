// Finds the weights that a path names.
#pragma once

#include <filesystem>

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

}  // namespace tost
