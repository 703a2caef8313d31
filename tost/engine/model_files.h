// Finds the file of weights for the path of a run, checkpoint or file.
#pragma once

#include <filesystem>

namespace tost {

enum class Weights { kRaw, kEma };

// The file for `path`: a file itself, the model (or index of shards) of a checkpoint folder, or the
// model of the best (else the latest, else the newest intact) checkpoint of a run folder. kEma
// selects averaged weights; a file of torch.save may hold both. Throws a data Error if there is no
// file.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::kRaw);

// Finds the file and checks it: throws a data Error, too, if the file differs from the manifest of
// its checkpoint.
std::filesystem::path find_intact_model_file(const std::filesystem::path& path,
                                             Weights weights = Weights::kRaw);

// The checkpoint folder with the final model of a finished run; throws a data Error without one.
std::filesystem::path final_checkpoint(const std::filesystem::path& run);

}  // namespace tost
