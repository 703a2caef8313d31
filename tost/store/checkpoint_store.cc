#include "tost/store/checkpoint_store.h"

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kPartial[] = ".partial";  // being written, or being removed
constexpr char kStale[] = ".stale";      // being replaced
constexpr int64_t kMaxStateBytes = int64_t{64} << 20;

fs::path with_suffix(fs::path path, const char* suffix) {
  return path += suffix;
}

int64_t checkpoint_bytes(const Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const CheckpointPart& part : checkpoint.parts) bytes += tensor_bytes(part.tensors);
  return bytes;
}

// Renames the folder before removing it, so that a kill leaves no partial checkpoint.
void remove_folder(const fs::path& folder) {
  const fs::path discarded = with_suffix(folder, kPartial);
  remove_tree(discarded);
  rename_path(folder, discarded);
  remove_tree(discarded);
}

// The folder of the best checkpoint; empty if there is none or a user removed the folder.
fs::path best_folder(const fs::path& directory) {
  try {
    return follow_pointer(directory, kBestPointer);
  } catch (const Error&) {
    return {};
  }
}

[[noreturn]] void fail_to_save(const Checkpoint& checkpoint, const char* what,
                               const fs::path& folder, const std::exception& error) {
  fail_data("Cannot save ", what, " of step ", checkpoint.step, ", which needs about ",
            human_bytes(checkpoint_bytes(checkpoint)), " where ", human_bytes(free_bytes(folder)),
            " are free (earlier checkpoints are intact): ", error.what());
}

void write_parts(const fs::path& folder, const Checkpoint& checkpoint) {
  if (checkpoint_bytes(checkpoint) > free_bytes(folder)) fail_data("The disk is too full.");
  for (const CheckpointPart& part : checkpoint.parts) {
    save_safetensors(folder / part.file, part.tensors, part.metadata);
  }
}

Checkpoint read_checkpoint(const fs::path& folder) {
  verify_checkpoint(folder);
  Checkpoint checkpoint;
  checkpoint.step = checkpoint_step(folder.filename().string());
  const fs::path state = folder / kStateFile;
  checkpoint.state = parse_json(read_file(state, kMaxStateBytes), cat("'", state.string(), "'"));
  for (const char* file : {kModelFile, kEmaFile}) {
    if (!path_exists(folder / file)) continue;
    SafetensorsFile content = load_safetensors(folder / file);
    checkpoint.parts.push_back({file, std::move(content.tensors), std::move(content.metadata)});
  }
  checkpoint.parts.push_back({kOptimizerFile, load_optimizer(folder), {}});
  return checkpoint;
}

fs::path made(fs::path directory) {
  make_directories(directory);
  sync_directory(directory.parent_path());
  return directory;
}

}  // namespace

std::map<std::string, torch::Tensor> load_optimizer(const fs::path& folder) {
  const fs::path index = folder / kOptimizerIndexFile;
  return load_safetensors(path_exists(index) ? index : folder / kOptimizerFile).tensors;
}

ManifestEntry write_checkpoint_part(const fs::path& folder, const Checkpoint& part) {
  const fs::path file = folder / part.parts.at(0).file;
  try {
    write_parts(folder, part);
    return manifest_entry_of(file);
  } catch (const std::exception& error) {
    discard(file);
    fail_to_save(part, "its part of the checkpoint", folder, error);
  }
}

CheckpointStore::CheckpointStore(fs::path directory, int64_t keep_last)
    : directory_(made(std::move(directory))),
      keep_last_(keep_last),
      place_(directory_.parent_path()) {}

int64_t CheckpointStore::clean() {
  std::vector<fs::path> leftovers;
  for (const FolderEntry& entry : folder_entries(directory_)) {
    const std::string name = entry.path.stem().string();
    const std::string suffix = entry.path.extension().string();
    const bool folder = checkpoint_step(name) >= 0 && (suffix == kPartial || suffix == kStale);
    const fs::path pointer = target_of_leftover(entry.path).filename();
    if (folder || pointer == kLatestPointer || pointer == kBestPointer) {
      leftovers.push_back(entry.path);
    }
  }
  for (const fs::path& path : leftovers) {
    const fs::path original = fs::path(path).replace_extension();
    if (path.extension() == kStale && !path_exists(original)) {
      rename_durably(path, original);  // killed between the two renames of a replacement
    } else {
      remove_tree(path);
    }
  }
  return int64_t(leftovers.size());
}

fs::path CheckpointStore::partial_folder(int64_t step) const {
  return with_suffix(directory_ / checkpoint_name(step), kPartial);
}

fs::path CheckpointStore::open(int64_t step) {
  const fs::path partial = partial_folder(step);
  place_.check();
  discard(partial);
  make_directories(partial);
  return partial;
}

void CheckpointStore::abandon(int64_t step) noexcept {
  discard(partial_folder(step));
}

fs::path CheckpointStore::save(const Checkpoint& checkpoint, bool best) {
  const fs::path folder = directory_ / checkpoint_name(checkpoint.step);
  const fs::path partial = partial_folder(checkpoint.step);
  place_.check();
  if (checkpoint.written.empty()) discard(partial);
  try {
    if (checkpoint.written.empty()) make_directories(partial);
    write_files(partial, checkpoint);
    place_.check();  // it may just have been made again
    put_in_place(partial, folder);
    write_file_atomic(directory_ / kLatestPointer, folder.filename().string() + "\n");
    if (best) write_file_atomic(directory_ / kBestPointer, folder.filename().string() + "\n");
  } catch (const std::exception& error) {
    place_.check();
    discard(partial);
    fail_to_save(checkpoint, "the checkpoint", directory_, error);
  }
  prune(checkpoint.keep_step);
  return folder;
}

void CheckpointStore::write_files(const fs::path& folder, const Checkpoint& checkpoint) const {
  write_parts(folder, checkpoint);
  write_file_atomic(folder / kStateFile, json_text(checkpoint.state, 1) + "\n");
  write_file_atomic(folder / kManifestFile,
                    json_text(make_manifest(folder, checkpoint.written), 1) + "\n");
  sync_directory(folder);
}

void CheckpointStore::put_in_place(const fs::path& from, const fs::path& to) const {
  const fs::path stale = with_suffix(to, kStale);
  const bool replaces = path_exists(to);
  if (replaces) {
    remove_tree(stale);  // of an attempt that failed
    rename_path(to, stale);
  }
  try {
    rename_durably(from, to);
  } catch (...) {
    if (replaces && !path_exists(to)) rename_path(stale, to);
    throw;
  }
  if (replaces) remove_tree(stale);
}

void CheckpointStore::prune(int64_t keep_step) const {
  const std::vector<fs::path> folders = list();
  const fs::path best = best_folder(directory_);
  const fs::path rollback = directory_ / checkpoint_name(keep_step);
  for (size_t i = size_t(keep_last_); i < folders.size(); ++i) {
    if (folders[i] != best && folders[i] != rollback) remove_folder(folders[i]);
  }
}

void CheckpointStore::remove_after(int64_t step) {
  for (const fs::path& folder : list()) {
    if (checkpoint_step(folder.filename().string()) > step) remove_folder(folder);
  }
}

std::optional<Checkpoint> CheckpointStore::load_newest(std::vector<std::string>& messages,
                                                       int64_t last_step) const {
  std::vector<fs::path> folders = list();
  std::erase_if(folders, [&](const fs::path& folder) {
    return checkpoint_step(folder.filename().string()) > last_step;
  });
  return read_newest(folders, messages, read_checkpoint);
}

}  // namespace tost
