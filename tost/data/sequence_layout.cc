#include "tost/data/sequence_layout.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/folder_dataset.h"
#include "tost/data/listops_dataset.h"
#include "tost/data/named_sets.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_text.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Kind = SequenceSource::Kind;

const std::vector<std::string> kSequenceFormats = {"auto",      "listops", "text",
                                                   "retrieval", "pixels",  "pathfinder"};

void check_spec(const SequenceSpec& spec) {
  if (std::find(kSequenceFormats.begin(), kSequenceFormats.end(), spec.format) ==
      kSequenceFormats.end()) {
    fail_usage("Unknown format of sequences '", spec.format, "'; use ",
               join(kSequenceFormats, ", "), ".", did_you_mean(spec.format, kSequenceFormats));
  }
  if (spec.holdout != -1 && !(spec.holdout >= 0 && spec.holdout < 1)) {
    fail_usage("The held-out share lies between 0 and 1 (excluded), or is -1 for the default, not ",
               spec.holdout, ".");
  }
  if (spec.max_length < 0) {
    fail_usage("Sequences are cut to 1 token or more, or not at all (0), not to ", spec.max_length,
               ".");
  }
  constexpr int64_t kMost = 100'000'000;
  for (const int64_t size : {spec.train_size, spec.test_size}) {
    if (size < 1 || size > kMost) {
      fail_usage("A generated set has 1 to ", human_number(kMost), " samples a split, not ", size,
                 ".");
    }
  }
}

// The split that a file's name tells, "" if none, and what stands before it: "basic_" and
// validation in "basic_val.tsv", "" and train in "train.tsv".
struct SplitName {
  std::string split, before;
};

SplitName split_name(const fs::path& file) {
  static const std::map<std::string, std::string> kWords = {
      {"train", "train"},           {"training", "train"},
      {"val", "validation"},        {"valid", "validation"},
      {"validation", "validation"}, {"dev", "validation"},
      {"eval", "validation"},       {"test", "test"}};
  const std::string stem = file.stem().string(), lower = to_lower(stem);
  std::string word;
  size_t begin = 0;
  for (size_t i = 0; i <= stem.size(); ++i) {
    const char c = i < stem.size() ? lower[i] : '_';
    if (c != '_' && c != '.' && c != '-') {
      word.push_back(c);
      continue;
    }
    if (const auto found = kWords.find(word); found != kWords.end())
      return {found->second, stem.substr(0, begin)};
    word.clear();
    begin = i + 1;
  }
  return {};
}

std::string split_of(const fs::path& file) {
  return split_name(file).split;
}

// How the names of one set begin where the folder holds several; "" where names do not tell.
std::string example_prefix(const fs::path& a, const fs::path& b) {
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    const std::string before = split_name(one).before;
    if (before.empty() || other.filename().string().starts_with(before)) continue;
    return cat(", or how the names of one set begin, as in '",
               (one.parent_path() / before).string(), "'");
  }
  return "";
}

// Tables whose names begin with `prefix` and tell a split.
std::map<std::string, std::string> split_tables(const fs::path& folder, const std::string& prefix) {
  std::map<std::string, std::string> found;
  for (const FolderEntry& entry : folder_entries(folder)) {
    const fs::path& path = entry.path;
    if (to_lower(path.extension().string()) != ".tsv") continue;
    if (!path.filename().string().starts_with(prefix)) continue;
    const std::string split = split_of(path);
    if (split.empty()) continue;
    const auto [place, added] = found.emplace(split, path.string());
    if (added) continue;
    fail_data("'", folder.string(), "' has two tables for the ", split, " split, '",
              fs::path(place->second).filename().string(), "' and '", path.filename().string(),
              "'; give one of them", example_prefix(place->second, path), ".");
  }
  return found;
}

std::string table_format(const std::string& path) {
  const TsvFile file(path);
  const std::vector<std::string_view> columns = file.first().columns;
  if (looks_like_listops(columns)) return "listops";
  if (columns.size() == 5) return "retrieval";
  if (columns.size() == 2) return "text";
  fail_data("The first line of '", path, "' has ", columns.size(),
            " columns; texts have two (label, text), pairs five (label, id, id, text, text).");
}

SequenceSource tables(const SequenceSpec& spec, std::map<std::string, std::string> files) {
  SequenceSource source{Kind::kTables, spec.format, std::move(files)};
  if (spec.format == "auto") source.format = table_format(source.files.begin()->second);
  if (source.format == "pixels" || source.format == "pathfinder") {
    fail_data("'", spec.path, "' holds tables, not the pictures that the format ", source.format,
              " needs.");
  }
  return source;
}

bool all_in_folds(const std::string& directory) {
  int64_t count = 0;
  for (const std::string& folder : class_folders(directory)) {
    for (const FolderEntry& entry : folder_entries(fs::path(directory) / folder)) {
      if (is_stray(entry.path)) continue;
      if (fold_of(entry.path.filename().string()).empty()) return false;
      ++count;
    }
  }
  return count > 0;
}

SequenceSource folders(const SequenceSpec& spec) {
  SequenceSource source{Kind::kFolders, "text", split_folders(spec.path)};
  if (!source.files.empty() && holds_texts(first_split(source.files))) return source;
  source.files = {{"train", spec.path}};
  if (all_in_folds(spec.path)) source.kind = Kind::kFolds;
  return holds_texts(spec.path) ? source : SequenceSource{Kind::kPictures, "pixels", {}};
}

// The names of one level of Pathfinder: in the release, and of idx files.
std::string level_folder(int64_t contour_length) {
  return contour_length == 6 ? "curv_baseline" : cat("curv_contour_length_", contour_length);
}

std::string level_name(int64_t contour_length) {
  if (contour_length == 6) return "easy";
  if (contour_length == 9) return "intermediate";
  return contour_length == 14 ? "hard" : cat("contour_length_", contour_length);
}

// Whether Pathfinder lies at the path: an archive, one a split, or a folder of several levels.
bool find_pathfinder(const SequenceSpec& spec, SequenceSource& source) {
  source = {Kind::kWhole, "pathfinder", {}};
  const fs::path path = spec.path;
  for (const fs::path& place : {path, path / level_folder(spec.contour_length)}) {
    if (is_pathfinder_archive(place.string())) {
      source.files = {{"train", place.string()}};
      return true;
    }
  }
  for (const std::string& split : kSplits) {
    const std::string folder = split_folder(spec.path, split);
    if (!folder.empty() && is_pathfinder_archive(folder)) source.files.emplace(split, folder);
  }
  if (!source.files.empty()) {
    source.kind = Kind::kArchives;
    return true;
  }
  const std::string prefix = (path / level_name(spec.contour_length)).string();
  source.files = {{"train", prefix}};
  return is_pathfinder_idx(prefix);
}

// As open_image_dataset sees it.
bool holds_pictures(const std::string& directory) {
  SequenceSpec spec;
  spec.path = directory;
  DataSpec pictures;
  pictures.path = directory;
  try {
    if (image_dataset_format(pictures) != "folder") return true;
    SequenceSource pathfinder;  // has folders of pictures, too
    return !find_pathfinder(spec, pathfinder) && folders(spec).kind == Kind::kPictures;
  } catch (const Error&) {
    return false;
  }
}

SequenceSource of_directory(const SequenceSpec& spec) {
  if (SequenceSource source; spec.format == "auto" || spec.format == "pathfinder") {
    if (find_pathfinder(spec, source)) return source;
    if (spec.format == "pathfinder") {
      fail_data("'", spec.path, "' holds no Pathfinder: neither metadata/ next to imgs/, nor ",
                level_folder(spec.contour_length), ", nor ", level_name(spec.contour_length),
                "-images-idx3-ubyte.");
    }
  }
  if (spec.format != "pixels") {
    std::map<std::string, std::string> found = split_tables(spec.path, "");
    if (!found.empty()) return tables(spec, std::move(found));
  }
  SequenceSource source =
      spec.format == "pixels" ? SequenceSource{Kind::kPictures, "pixels", {}} : folders(spec);
  if (spec.format != "auto" && spec.format != source.format) {
    fail_data("'", spec.path, "' holds no data of the format ", spec.format,
              spec.format == "text" ? ": no tables (label<TAB>text), no class folders of texts."
                                    : ": no tables named after their split (train.tsv).");
  }
  return source;
}

}  // namespace

std::string fold_of(const std::string& name) {
  const auto digit = [&](size_t k) { return name[k] >= '0' && name[k] <= '9'; };
  if (name.size() < 6 || !name.starts_with("cv") || name[5] != '_') return "";
  if (!digit(2) || !digit(3) || !digit(4)) return "";
  return name[2] < '8' ? "train" : name[2] == '8' ? "validation" : "test";
}

const std::string& first_split(const std::map<std::string, std::string>& files) {
  const auto train = files.find("train");
  return train == files.end() ? files.begin()->second : train->second;
}

SequenceSource find_sequences(const SequenceSpec& spec) {
  check_spec(spec);
  if (spec.path != "shapes" && means_generated(spec.path, spec.format)) {
    return {Kind::kGenerated, spec.path, {}};
  }
  if (is_folder(spec.path)) return of_directory(spec);
  if (is_plain_file(spec.path)) {
    const std::string split = split_of(spec.path);
    return tables(spec, {{split.empty() ? "train" : split, spec.path}});
  }
  fs::path parent = fs::path(spec.path).parent_path();
  if (parent.empty()) parent = ".";
  if (is_folder(parent)) {
    auto found = split_tables(parent, fs::path(spec.path).filename().string());
    if (!found.empty()) return tables(spec, std::move(found));
    if (is_pathfinder_idx(spec.path)) return {Kind::kWhole, "pathfinder", {{"train", spec.path}}};
  }
  fail_data("There is no file or directory '", spec.path,
            "'; give one, or a generated set: ", join(generated_sequences(), ", "), ".",
            did_you_mean(spec.path, generated_sequences()), origin_of(spec.path));
}

bool is_sequence_data(const SequenceSpec& spec) {
  if (spec.format != "auto")
    return std::find(kSequenceFormats.begin(), kSequenceFormats.end(), spec.format) !=
           kSequenceFormats.end();
  if (is_plain_file(spec.path)) return true;
  if (is_folder(spec.path)) {
    return !holds_pictures(spec.path) && find_sequences(spec).kind != Kind::kPictures;
  }
  try {
    find_sequences(spec);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> own_splits(const SequenceSource& source, const SequenceSpec& spec) {
  if (source.kind == Kind::kGenerated || source.kind == Kind::kFolds ||
      source.kind == Kind::kWhole) {
    return kSplits;
  }
  if (source.kind == Kind::kPictures) {
    DataSpec pictures;
    pictures.path = spec.path;
    pictures.holdout = 0;
    return image_dataset_splits(pictures);
  }
  std::vector<std::string> splits;
  for (const std::string& split : kSplits) {
    if (source.files.contains(split)) splits.push_back(split);
  }
  return splits;
}

}  // namespace tost
