// Checkpoints on disk, a folder each: complete and verified, or absent.
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
  // Step of another checkpoint that is retained when this one is saved, at any age; -1: none.
  int64_t keep_step = -1;
  // Its files that are already in the folder of CheckpointStore::open().
  Manifest written = {};
};

// The tensors of a checkpoint's optimiser, of one file or of all its shards.
std::map<std::string, torch::Tensor> load_optimizer(const std::filesystem::path& folder);

// Writes a part of a checkpoint into the folder that open() has made, from any process. Flushes it,
// and reads it again for its entry in the manifest. On failure removes it and throws a data Error
// with the space needed and free.
ManifestEntry write_checkpoint_part(const std::filesystem::path& folder, const Checkpoint& part);

// Writing order: files into a folder of a temporary name, each flushed; a manifest with sizes and
// CRC-32C of all of them; the folder flushed, renamed into place, its parent flushed; then the
// pointers. A crash at any moment leaves every earlier checkpoint and either no trace of the new
// one or all of it.
class CheckpointStore {
 public:
  // `directory` is made if missing. keep_last >= 1.
  CheckpointStore(std::filesystem::path directory, int64_t keep_last);

  // Removes the leftovers of killed saves; returns the number of folders removed or restored.
  int64_t clean();

  // Begins a checkpoint that several processes write: its folder under a temporary name, empty.
  // Then save() must be called with the files they have written, or abandon().
  std::filesystem::path open(int64_t step);
  void abandon(int64_t step) noexcept;

  // Replaces a checkpoint of the same step. Afterwards only the newest keep_last, the best and the
  // one of keep_step remain. On failure: removes its traces and throws a data Error with the space
  // needed and free. If the folder above `directory` was moved, nothing is written and the Error
  // states this.
  std::filesystem::path save(const Checkpoint& checkpoint, bool best);

  // See checkpoint_folders().
  std::vector<std::filesystem::path> list() const { return checkpoint_folders(directory_); }

  // The newest checkpoint whose files equal its manifest, all read. Each damaged one that was
  // skipped adds a sentence to `messages`. Nothing when there is no checkpoint; a data Error when
  // all are damaged. Those of steps after `last_step` are ignored.
  std::optional<Checkpoint> load_newest(
      std::vector<std::string>& messages,
      int64_t last_step = std::numeric_limits<int64_t>::max()) const;

  // Removes the checkpoints of later steps.
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
