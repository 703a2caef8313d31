// Finds the file of weights at a path, which may be that of a run, a checkpoint or a file; and
// lists the presets of all kinds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tost {

enum class Weights { kRaw, kEma };

// Finds the model file for `path`. A file is the result itself; a checkpoint folder gives its model
// or index of shards; a run folder gives the model of its best (else latest, else newest intact)
// checkpoint. kEma selects averaged weights, which a file of torch.save may also contain. Throws a
// data Error if there is no file.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::kRaw);

// Finds the model file, and throws a data Error if it differs from the manifest of its checkpoint.
std::filesystem::path find_intact_model_file(const std::filesystem::path& path,
                                             Weights weights = Weights::kRaw);

// The folder of a run's latest checkpoint; throws a data Error if the run has no checkpoint.
std::filesystem::path final_checkpoint(const std::filesystem::path& run);

// The presets of all kinds of model by name.
class PresetNames {
 public:
  // Adds the names of presets before main(), as a static object next to the presets of a kind.
  explicit PresetNames(const std::vector<std::string>& names) {
    list().insert(list().end(), names.begin(), names.end());
  }
  // All names, in the order in which they were added.
  static const std::vector<std::string>& all() { return list(); }

 private:
  static std::vector<std::string>& list() {
    static std::vector<std::string> names;
    return names;
  }
};

}  // namespace tost
