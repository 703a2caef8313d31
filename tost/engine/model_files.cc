#include "tost/engine/model_files.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/engine/manifest.h"
#include "tost/engine/run_layout.h"
#include "tost/engine/shipped_models.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// The file of the raw weights, or the index of their shards; empty if there is neither.
fs::path raw_file(const fs::path& folder) {
  for (const char* name : {kModelFile, kSafetensorsIndexFile}) {
    if (is_plain_file(folder / name)) return folder / name;
  }
  return {};
}

fs::path in_checkpoint(const fs::path& folder, Weights weights) {
  const fs::path raw = raw_file(folder);
  if (weights == Weights::kRaw) return raw;
  if (is_plain_file(folder / kEmaFile)) return folder / kEmaFile;
  if (!raw.empty()) {
    fail_data("'", folder.string(),
              "' has no averaged weights; train with ema_decay above 0 to get them.");
  }
  return {};
}

// Explains that a preset is no model file, because users may expect one.
[[noreturn]] void fail_missing(const std::string& path) {
  const auto presets = PresetNames::all();
  if (std::find(presets.begin(), presets.end(), path) != presets.end()) {
    fail_data("'", path, "' is a preset, which has a shape and no weights; train it (tost train ",
              "--model ", path, " --out run) and give the run, or give a checkpoint of it ",
              "(docs/checkpoints.md).");
  }
  const bool name = path.find_first_of("./") == std::string::npos;
  const auto shipped = name ? shipped_names() : std::vector<std::string>();
  if (shipped.empty()) {
    fail_data("'", path, "' does not exist; a model file or a run folder is expected.");
  }
  fail_data("'", path, "' does not exist; a model file, a run folder or a shipped model (",
            join(shipped, ", "), ") is expected.", did_you_mean(path, shipped));
}

[[noreturn]] void fail_no_checkpoint(const std::string& path) {
  const auto shipped = shipped_names();
  if (std::find(shipped.begin(), shipped.end(), path) != shipped.end()) {
    fail_data("The folder '", path, "' here holds no checkpoint and hides the shipped model ", path,
              "; go to another folder, or give '",
              (shipped_folder() / (path + ".safetensors")).string(), "'.");
  }
  fail_data("'", path, "' holds no checkpoint; give a run folder, a checkpoint folder or a ",
            ".safetensors, .pth or .pt file.");
}

}  // namespace

fs::path find_model_file(const fs::path& path, Weights weights) {
  if (!path_exists(path)) fail_missing(path.string());
  if (!is_folder(path)) return path;
  fs::path file = in_checkpoint(path, weights);
  if (file.empty()) {
    const fs::path checkpoint =
        find_checkpoint(path / kCheckpointFolder, {kBestPointer, kLatestPointer});
    if (!checkpoint.empty()) file = in_checkpoint(checkpoint, weights);
    if (!checkpoint.empty() && file.empty()) {
      fail_data("'", (checkpoint / kModelFile).string(), "' is missing; ",
                advice_on_damage(checkpoint), ".");
    }
  }
  if (file.empty()) fail_no_checkpoint(path.string());
  return file;
}

fs::path find_intact_model_file(const fs::path& path, Weights weights) {
  fs::path file = find_model_file(path, weights);
  verify_file(file);
  return file;
}

fs::path final_checkpoint(const fs::path& run) {
  const fs::path found = find_checkpoint(run / kCheckpointFolder, {kLatestPointer});
  if (found.empty()) fail_data("'", run.string(), "' has no checkpoint to score.");
  return found;
}

}  // namespace tost
