// Checkpoints on disk: a folder for each, which is complete and verified, or does not exist.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/folder_lock.h"
#include "tost/engine/manifest.h"
#include "tost/engine/run_layout.h"
#include "tost/torch.h"

namespace tost {

struct CheckpointPart {
  std::string file;  // "model.safetensors"
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

struct Checkpoint {
  int64_t step = 0;
  std::vector<CheckpointPart> parts = {};
  nlohmann::json state = {};  // state.json
  // The step of an older checkpoint that must be preserved; -1 for none.
  int64_t keep_step = -1;
  // Files of this checkpoint that are already in the folder of CheckpointStore::open().
  Manifest written = {};
};

// Reads the optimiser's tensors of a checkpoint, from one file or from all shards.
std::map<std::string, torch::Tensor> load_optimizer(const std::filesystem::path& folder);

// Writes, on any process, a file of a checkpoint into the folder that open() has made. Flushes the
// file, and reads it again for its entry in the manifest. On failure removes the file and throws a
// data Error with the needed and the free space.
ManifestEntry write_checkpoint_part(const std::filesystem::path& folder, const Checkpoint& part);

// Writes and flushes files, and then a manifest, in a folder with a temporary name. Flushes and
// renames the folder, flushes its parent, and then writes the pointers. A crash at any moment
// leaves all earlier checkpoints, and the new one completely or not at all.
class CheckpointStore {
 public:
  // Creates `directory` if it is missing. keep_last >= 1.
  CheckpointStore(std::filesystem::path directory, int64_t keep_last);

  // Removes the remains of killed saves; returns the number of folders removed or restored.
  int64_t clean();

  // Creates an empty folder with a temporary name for a checkpoint that several processes write.
  // Afterwards either save() must be called with the written files, or abandon().
  std::filesystem::path open(int64_t step);
  void abandon(int64_t step) noexcept;

  // Saves a checkpoint, and replaces one of the same step. Afterwards only the newest keep_last
  // checkpoints, the best one and that of keep_step remain. On failure removes the written files
  // and throws a data Error with the needed and the free space. If the folder above `directory` was
  // moved, throws an Error and writes nothing.
  std::filesystem::path save(const Checkpoint& checkpoint, bool best);

  // See checkpoint_folders().
  std::vector<std::filesystem::path> list() const { return checkpoint_folders(directory_); }

  // Reads the newest checkpoint whose files match its manifest; ignores steps after `last_step`.
  // Adds a sentence to `messages` for each damaged checkpoint that is skipped. Returns nothing if
  // there is no checkpoint; throws a data Error if all are damaged.
  std::optional<Checkpoint> load_newest(
      std::vector<std::string>& messages,
      int64_t last_step = std::numeric_limits<int64_t>::max()) const;

  // Removes the checkpoints of steps after `step`.
  void remove_after(int64_t step);

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path partial_folder(int64_t step) const;
  void write_files(const std::filesystem::path& folder, const Checkpoint& checkpoint) const;
  void put_in_place(const std::filesystem::path& from, const std::filesystem::path& to) const;
  void prune(int64_t keep_step) const;

  std::filesystem::path directory_;
  int64_t keep_last_;
  FolderPlace place_;  // of the run
};

}  // namespace tost
