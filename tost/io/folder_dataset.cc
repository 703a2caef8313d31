#include "tost/io/folder_dataset.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/function_ref.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  const std::string ending = to_lower(path.extension().string());
  if (ending == ".jpg" || ending == ".jpeg" || ending == ".png") return true;
  return is_image_file(path.string());
}

// Visits the files in `folder` and its subfolders until `visit` returns false; returns true if all
// were visited. Does not follow links to folders, which could form a cycle.
bool each_file(const fs::path& folder, function_ref<bool(const fs::path&)> visit) {
  for (const FolderEntry& entry : folder_entries(folder)) {
    if (is_system_file(entry.path)) continue;
    if (entry.file && !visit(entry.path)) return false;
    if (entry.folder && !entry.link && !each_file(entry.path, visit)) return false;
  }
  return true;
}

// Sorted paths below `root`.
std::vector<std::string> pictures(const fs::path& root, const fs::path& folder) {
  std::vector<std::string> found;
  each_file(folder, [&](const fs::path& file) {
    if (is_picture(file)) found.push_back(file.lexically_relative(root).string());
    return true;
  });
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_system_file(const fs::path& file) {
  const std::string name = to_lower(file.filename().string());
  return name.starts_with(".") || name == "thumbs.db" || name == "desktop.ini";
}

bool holds_texts(const std::string& directory) {
  constexpr int64_t kEnough = 20, kEnoughInAll = 400;
  int64_t pictures = 0, others = 0;
  for (const std::string& folder : class_folders(directory)) {
    if (pictures + others >= kEnoughInAll) break;
    int64_t met = 0;
    each_file(fs::path(directory) / folder, [&](const fs::path& file) {
      ++(is_picture(file) ? pictures : others);
      return ++met < kEnough;
    });
  }
  return others > pictures;
}

std::vector<std::string> class_folders(const std::string& directory) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : folder_entries(directory)) {
    if (!entry.folder || is_system_file(entry.path)) continue;
    names.push_back(entry.path.filename().string());
    require_utf8(names.back(), cat("In '", directory, "' the name of the class folder"));
  }
  return names;
}

std::string split_folder(const std::string& directory, const std::string& split) {
  std::vector<std::string> names = {split};
  if (split == "validation") names.push_back("val");
  for (const std::string& name : names) {
    const fs::path path = fs::path(directory) / name;
    if (is_folder(path)) return path.string();
  }
  return "";
}

std::map<std::string, std::string> split_folders(const std::string& directory) {
  std::map<std::string, std::string> found;
  for (const char* split : {"train", "validation", "test"}) {
    std::string folder = split_folder(directory, split);
    if (!folder.empty()) found.emplace(split, std::move(folder));
  }
  if (found.empty() || found.contains("train")) return found;
  if (class_folders(directory).size() != found.size()) return {};
  for (const auto& [split, folder] : found) {
    if (class_folders(folder).empty()) return {};
  }
  return found;
}

FolderDataset::FolderDataset(const std::string& directory, std::vector<std::string> classes)
    : directory_(directory), classes_(std::move(classes)) {
  const std::vector<std::string> folders = class_folders(directory);
  if (folders.empty()) {
    fail_data("'", directory, "' has no class folders; it needs one folder of pictures a class.");
  }
  if (classes_.empty()) classes_ = folders;
  for (const std::string& folder : folders) {
    const auto place = std::find(classes_.begin(), classes_.end(), folder);
    if (place == classes_.end()) {
      fail_data("'", directory, "' has a class folder '", folder,
                "' that the training split does not have.", did_you_mean(folder, classes_));
    }
    const std::vector<std::string> paths = pictures(directory, fs::path(directory) / folder);
    if (paths.empty()) {
      fail_data("The class folder '", (fs::path(directory) / folder).string(),
                "' holds no JPEG or PNG picture; fill or remove it.");
    }
    for (const std::string& path : paths) files_.push_back({path, place - classes_.begin()});
  }
}

std::string FolderDataset::name(int64_t i) const {
  return (fs::path(directory_) / files_[static_cast<size_t>(i)].path).string();
}

}  // namespace tost
