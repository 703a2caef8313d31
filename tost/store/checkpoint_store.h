// Checkpoints on disk: a folder each, whole and verified or not there at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/folder_place.h"
#include "tost/store/manifest.h"
#include "tost/store/run_layout.h"
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
  // Of another checkpoint that stays when this one is saved, whatever its age; -1: none.
  int64_t keep_step = -1;
  // Files of it that are in CheckpointStore::open()'s folder already.
  Manifest written = {};
};

// The tensors of a checkpoint's optimiser, of one file or of all its shards.
std::map<std::string, torch::Tensor> load_optimizer(const std::filesystem::path& folder);

// A part of a checkpoint into the folder that open() has made, by any process: flushed, and read
// again for its entry in the manifest. On failure nothing is left of it and a data Error has the
// space needed and free.
ManifestEntry write_checkpoint_part(const std::filesystem::path& folder, const Checkpoint& part);

// Writing order: files into a folder of a temporary name, each flushed; a manifest with sizes and
// CRC-32C of all of them; the folder flushed, renamed into place, its parent flushed; then the
// pointers. A crash at any moment leaves every earlier checkpoint and either no trace of the new
// one or all of it.
class CheckpointStore {
 public:
  // `directory` is made if missing. keep_last >= 1.
  CheckpointStore(std::filesystem::path directory, int64_t keep_last);

  // Removes what killed saves have left; gives the number of folders removed or put back.
  int64_t clean();

  // Begins a checkpoint that several processes write: its folder under a temporary name, empty.
  // save() is to be called with what they have written, or abandon().
  std::filesystem::path open(int64_t step);
  void abandon(int64_t step) noexcept;

  // Replaces a checkpoint of the same step. Afterwards only the newest keep_last, the best
  // and the one of keep_step remain. On failure: removes its traces and throws a data Error with
  // the space needed and free. Where the folder above `directory` is no longer in its place,
  // nothing is written and the Error says so.
  std::filesystem::path save(const Checkpoint& checkpoint, bool best);

  // See checkpoint_folders().
  std::vector<std::filesystem::path> list() const { return checkpoint_folders(directory_); }

  // The newest checkpoint whose files equal its manifest, all read. Each damaged one that was
  // skipped adds a sentence to `messages`. Nothing when there is no checkpoint; a data Error
  // when all are damaged. Those of steps after `last_step` are not looked at.
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
