#include "tost/engine/run_layout.h"

#include <algorithm>
#include <cstdio>

#include "tost/base/file.h"
#include "tost/base/path.h"

namespace tost {

namespace fs = std::filesystem;

std::optional<fs::path> run_config_file(const fs::path& model_file) {
  const fs::path checkpoints = absolute_path(model_file).parent_path().parent_path();
  const fs::path file = checkpoints.parent_path() / kConfigFile;
  const bool found = checkpoints.filename() == kCheckpointFolder && is_plain_file(file);
  return found ? std::optional(file) : std::nullopt;
}

std::string optimizer_shard_name(int64_t shard, int64_t shards) {
  char name[80];
  std::snprintf(name, sizeof name, "optimizer-%05lld-of-%05lld.safetensors",
                static_cast<long long>(shard + 1), static_cast<long long>(shards));
  return name;
}

std::string checkpoint_name(int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step-%09lld", static_cast<long long>(step));
  return name;
}

int64_t checkpoint_step(const std::string& name) {
  constexpr size_t kPrefix = 5, kMaxDigits = 18;  // 18 digits always fit an int64
  if (name.rfind("step-", 0) != 0 || name.size() == kPrefix || name.size() > kPrefix + kMaxDigits)
    return -1;
  int64_t step = 0;
  for (size_t i = kPrefix; i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9') return -1;
    step = step * 10 + (name[i] - '0');
  }
  return checkpoint_name(step) == name ? step : -1;
}

fs::path follow_pointer(const fs::path& checkpoints, const char* pointer) {
  const fs::path file = checkpoints / pointer;
  if (!is_plain_file(file)) return {};
  std::string name = read_file(file, 4096);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (checkpoint_step(name) < 0 || !is_folder(checkpoints / name)) {
    fail_data("'", file.string(), "' should name a checkpoint folder next to it but holds '",
              name.substr(0, 60), "'; name a checkpoint folder yourself.");
  }
  return checkpoints / name;
}

std::vector<fs::path> checkpoint_folders(const fs::path& checkpoints) {
  std::vector<fs::path> folders;
  for (const FolderEntry& entry : folder_entries(checkpoints)) {
    if (entry.folder && checkpoint_step(entry.path.filename().string()) >= 0) {
      folders.push_back(entry.path);
    }
  }
  const auto newer = [](const fs::path& a, const fs::path& b) {
    return checkpoint_step(a.filename().string()) > checkpoint_step(b.filename().string());
  };
  std::sort(folders.begin(), folders.end(), newer);
  return folders;
}

}  // namespace tost
