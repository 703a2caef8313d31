#include "tost/data/pathfinder_dataset.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/io/idx.h"
#include "tost/io/safe_text.h"

namespace tost {

const std::vector<std::string>& pathfinder_classes() {
  static const std::vector<std::string> classes = {"separate", "connected"};
  return classes;
}

// Readers of Pathfinder's files.

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxList = int64_t{1} << 30;  // bytes of one metadata file

struct Entry {
  std::string path;  // relative to the folder
  int64_t label;
};

class PathfinderArchive : public ImageDataset {
 public:
  PathfinderArchive(std::string folder, std::vector<Entry> entries)
      : folder_(std::move(folder)), entries_(std::move(entries)) {
    const Image first = image(0);
    if (first.width == first.height) side_ = first.width;
  }

  int64_t size() const override { return static_cast<int64_t>(entries_.size()); }
  const std::vector<std::string>& classes() const override { return pathfinder_classes(); }
  int64_t label(int64_t i) const override { return entries_[static_cast<size_t>(i)].label; }
  Image image(int64_t i) const override { return to_channels(read_image(name(i)), 1); }
  std::string name(int64_t i) const override {
    return (fs::path(folder_) / entries_[static_cast<size_t>(i)].path).string();
  }
  std::string format() const override { return "pathfinder"; }
  int64_t channels() const override { return 1; }
  int64_t side() const override { return side_; }

 private:
  std::string folder_;
  std::vector<Entry> entries_;
  int64_t side_ = 0;
};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t at = line.find_first_not_of(" \r"); at < line.size();) {
    const size_t end = std::min(line.find_first_of(" \r", at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \r", end);
  }
  return fields;
}

bool stays_inside(const fs::path& path) {
  if (path.is_absolute()) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

Entry parse_line(std::string_view line, const std::string& place) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() < 4) {
    fail_data(place, " has ", fields.size(),
              " fields; Pathfinder lists folder, file, number, label and more.");
  }
  if (fields[3] != "0" && fields[3] != "1") {
    fail_data(place, " has the label ", shown(fields[3], 40), " in its fourth field; labels are 0 ",
              "and 1.");
  }
  const fs::path path = fs::path(fields[0]) / fs::path(fields[1]);
  if (!stays_inside(path) || path.string().find('\0') != std::string::npos) {
    fail_data(place, " names the picture ", shown(path.string(), 80),
              ", which is outside its folder.");
  }
  return {path.string(), fields[3] == "1"};
}

void read_list(const fs::path& path, std::vector<Entry>& entries) {
  const std::string text = read_file(path, kMaxList);
  if (text.starts_with("\x93NUMPY")) {
    fail_data("'", path.string(), "' is a NumPy file; the release's lists are plain text, one ",
              "picture a line (numpy.savetxt(path, numpy.load(path), '%s') makes it one).");
  }
  int64_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view row = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (row.empty()) continue;
    entries.push_back(parse_line(row, cat("Line ", line, " of '", path.string(), "'")));
  }
}

// By number, then by name.
std::vector<fs::path> lists_of(const std::string& folder) {
  std::vector<std::pair<int64_t, fs::path>> lists;
  for (const FolderEntry& entry : folder_entries(fs::path(folder) / "metadata")) {
    if (entry.path.extension() != ".npy") continue;
    const std::string stem = entry.path.stem().string();
    int64_t number = 0;
    std::from_chars(stem.data(), stem.data() + stem.size(), number);
    lists.emplace_back(number, entry.path);
  }
  std::sort(lists.begin(), lists.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : lists) paths.push_back(std::move(path));
  return paths;
}

std::string idx_file(const std::string& prefix, const char* kind) {
  for (const char* ending : {"", ".gz"}) {
    const std::string path = cat(prefix, "-", kind, "-ubyte", ending);
    if (is_plain_file(path)) return path;
  }
  return "";
}

}  // namespace

bool is_pathfinder_archive(const std::string& folder) {
  return is_folder(fs::path(folder) / "metadata") && is_folder(fs::path(folder) / "imgs");
}

std::unique_ptr<ImageDataset> open_pathfinder_archive(const std::string& folder) {
  std::vector<Entry> entries;
  for (const fs::path& list : lists_of(folder)) read_list(list, entries);
  if (entries.empty()) fail_data("'", folder, "/metadata' lists no pictures (N.npy).");
  return std::make_unique<PathfinderArchive>(folder, std::move(entries));
}

bool is_pathfinder_idx(const std::string& prefix) {
  return !idx_file(prefix, "images-idx3").empty();
}

std::unique_ptr<ImageDataset> open_pathfinder_idx(const std::string& prefix) {
  const std::string image_path = idx_file(prefix, "images-idx3");
  const std::string label_path = idx_file(prefix, "labels-idx1");
  if (label_path.empty()) fail_data("There is no '", prefix, "-labels-idx1-ubyte' or .gz.");
  IdxArray images = read_idx(image_path, 3);
  IdxArray labels = read_idx(label_path, 1);
  if (images.dims[0] != labels.dims[0]) {
    fail_data("'", image_path, "' holds ", images.dims[0], " pictures, but '", label_path,
              "' holds ", labels.dims[0], " labels.");
  }
  const auto bad = std::find_if(labels.values.begin(), labels.values.end(),
                                [](uint8_t label) { return label > 1; });
  if (bad != labels.values.end()) {
    fail_data("'", label_path, "' has the label ", int{*bad}, " at position ",
              bad - labels.values.begin(), "; those of Pathfinder are 0 and 1.");
  }
  return std::make_unique<MemoryDataset>(
      MemoryImages{"pathfinder", images.dims[2], images.dims[1], 1, std::move(images.values),
                   std::move(labels.values), pathfinder_classes(), image_path});
}

}  // namespace tost
