// clang-format off
// The layout of the files of a training run:
//   RUN/config.json                      the effective configuration
//   RUN/model.json                       architecture, classes and preprocessing
//   RUN/metrics.jsonl                    the log
//   RUN/checkpoints/step-000000123/      {model,ema,optimizer}.safetensors, state.json, manifest.json; of a run whose
//                                        optimiser is divided over processes optimizer.safetensors.index.json and
//                                        optimizer-00001-of-00004.safetensors, ... in place of optimizer.safetensors
//   RUN/checkpoints/{latest,best}        one line, the name of a checkpoint folder
// clang-format on
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/error.h"

namespace tost {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kModelInfoFile[] = "model.json";
inline constexpr char kMetricsFile[] = "metrics.jsonl";
inline constexpr char kCheckpointFolder[] = "checkpoints";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kEmaFile[] = "ema.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kOptimizerIndexFile[] = "optimizer.safetensors.index.json";  // of shards
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kLatestPointer[] = "latest";
inline constexpr char kBestPointer[] = "best";

// The settings of the run that holds a model file (RUN/checkpoints/STEP/FILE), or nothing.
std::optional<std::filesystem::path> run_config_file(const std::filesystem::path& model_file);

// Names the file of a shard: "optimizer-00001-of-00004.safetensors" for shard 0 of 4.
std::string optimizer_shard_name(int64_t shard, int64_t shards);

// "step-000000123"
std::string checkpoint_name(int64_t step);
// The step in the name of a checkpoint's folder; -1 for other names.
int64_t checkpoint_step(const std::string& name);

// The checkpoint folder that RUN/checkpoints/`pointer` names; empty if there is no such pointer.
// Throws a data Error if the pointer does not hold the name of a checkpoint folder.
std::filesystem::path follow_pointer(const std::filesystem::path& checkpoints, const char* pointer);

// The folders of finished checkpoints, newest first, without verification.
std::vector<std::filesystem::path> checkpoint_folders(const std::filesystem::path& checkpoints);

// Calls `read` on each of `folders`, newest first, until a call throws no Error, and returns the
// result of this call. Each skipped folder adds a sentence to `messages`. Returns nothing if there
// are no folders, and throws a data Error if all calls throw.
template <class Read>
auto read_newest(const std::vector<std::filesystem::path>& folders,
                 std::vector<std::string>& messages, Read read)
    -> std::optional<decltype(read(folders[0]))> {
  std::string newest;
  for (const std::filesystem::path& folder : folders) {
    try {
      return read(folder);
    } catch (const Error& error) {
      if (newest.empty()) newest = error.what();
      messages.push_back(cat("Skipping a damaged checkpoint: ", error.what()));
    }
  }
  if (folders.empty()) return std::nullopt;
  const std::string directory = folders[0].parent_path().string();
  if (folders.size() == 1) {
    fail_data("The only checkpoint in '", directory,
              "' is damaged, so that a copy of it is needed or a new run: ", newest);
  }
  fail_data(
      "All ", folders.size(), " checkpoints in '", directory,
      "' are damaged, so that a copy of one is needed or a new run; the newest one: ", newest);
}

}  // namespace tost
