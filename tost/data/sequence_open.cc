// Finds the labelled sequences at a path, and opens a split of them.
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/listops.h"
#include "tost/data/sequence_dataset.h"
#include "tost/data/sequence_text.h"
#include "tost/io/dataset.h"
#include "tost/io/folder_dataset.h"
#include "tost/io/named_sets.h"
#include "tost/io/views.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Opened = std::unique_ptr<SequenceDataset>;

enum class SourceKind {
  kGenerated,
  kTables,   // a table a split
  kFolders,  // class folders of texts
  kFolds,    // class folders of texts whose names give the split
  kPictures  // what open_image_dataset reads
};

struct SequenceSource {
  SourceKind kind = SourceKind::kGenerated;
  std::string format;                        // as in SequenceSpec, never "auto"
  std::map<std::string, std::string> files;  // by split; of kFolds only "train"
};

const std::vector<std::string> kSequenceFormats = {"auto", "listops", "text", "retrieval",
                                                   "pixels"};

bool is_sequence_format(const std::string& format) {
  return std::ranges::find(kSequenceFormats, format) != kSequenceFormats.end();
}

// The split in a file's name, or "", and the text before the split: validation and "basic_" for
// "basic_val.tsv", train and "" for "train.tsv".
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

// A prefix that selects one of several sets in a folder, for messages; "" if there is none.
std::string example_prefix(const fs::path& a, const fs::path& b) {
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    const std::string before = split_name(one).before;
    if (before.empty() || other.filename().string().starts_with(before)) continue;
    return cat(", or how the names of one set begin, as in '",
               (one.parent_path() / before).string(), "'");
  }
  return "";
}

// The tables, by split, whose names begin with `prefix` and contain the name of the split.
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

// The file that defines the order of classes: that of the training split, else of the first split.
const std::string& first_split(const std::map<std::string, std::string>& files) {
  const auto train = files.find("train");
  return train == files.end() ? files.begin()->second : train->second;
}

// The split of a review of Pang and Lee (2004): files cvNNN_... with NNN below 800 are for
// training, those below 900 for validation, others for testing. Returns "" for another name.
std::string fold_of(const std::string& name) {
  const auto digit = [&](size_t k) { return name[k] >= '0' && name[k] <= '9'; };
  if (name.size() < 6 || !name.starts_with("cv") || name[5] != '_') return "";
  if (!digit(2) || !digit(3) || !digit(4)) return "";
  return name[2] < '8' ? "train" : name[2] == '8' ? "validation" : "test";
}

SequenceSource tables(const SequenceSpec& spec, std::map<std::string, std::string> files) {
  SequenceSource source{SourceKind::kTables, spec.format, std::move(files)};
  if (spec.format == "auto") source.format = table_format(source.files.begin()->second);
  if (source.format == "pixels") {
    fail_data("'", spec.path, "' holds tables, not the pictures that the format pixels needs.");
  }
  return source;
}

bool all_in_folds(const std::string& directory) {
  int64_t count = 0;
  for (const std::string& folder : class_folders(directory)) {
    for (const FolderEntry& entry : folder_entries(fs::path(directory) / folder)) {
      if (is_system_file(entry.path)) continue;
      if (fold_of(entry.path.filename().string()).empty()) return false;
      ++count;
    }
  }
  return count > 0;
}

SequenceSource folders(const SequenceSpec& spec) {
  SequenceSource source{SourceKind::kFolders, "text", split_folders(spec.path)};
  if (!source.files.empty() && holds_texts(first_split(source.files))) return source;
  source.files = {{"train", spec.path}};
  if (all_in_folds(spec.path)) source.kind = SourceKind::kFolds;
  return holds_texts(spec.path) ? source : SequenceSource{SourceKind::kPictures, "pixels", {}};
}

// As open_image_dataset sees it.
bool holds_pictures(const std::string& directory) {
  try {
    if (image_dataset_format({.path = directory}) != "folder") return true;
    return folders({.path = directory}).kind == SourceKind::kPictures;
  } catch (const Error&) {
    return false;
  }
}

SequenceSource of_directory(const SequenceSpec& spec) {
  if (spec.format != "pixels") {
    std::map<std::string, std::string> found = split_tables(spec.path, "");
    if (!found.empty()) return tables(spec, std::move(found));
  }
  SequenceSource source =
      spec.format == "pixels" ? SequenceSource{SourceKind::kPictures, "pixels", {}} : folders(spec);
  if (spec.format != "auto" && spec.format != source.format) {
    fail_data("'", spec.path, "' holds no data of the format ", spec.format,
              spec.format == "text" ? ": no tables (label<TAB>text), no class folders of texts."
                                    : ": no tables named after their split (train.tsv).");
  }
  return source;
}

// Finds the sequences at a path. Throws a data Error if nothing is recognised.
SequenceSource find_sequences(const SequenceSpec& spec) {
  check_sequence_spec(spec);
  if (spec.path != "shapes" && means_generated(spec.path, spec.format)) {
    return {SourceKind::kGenerated, spec.path, {}};
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
  }
  fail_data("There is no file or directory '", spec.path,
            "'; give one, or a generated set: ", join(generated_sequences(), ", "), ".",
            did_you_mean(spec.path, generated_sequences()), origin_of(spec.path));
}

// The splits in the files of the source, in the order train, validation, test.
std::vector<std::string> stored_splits(const SequenceSource& source, const SequenceSpec& spec) {
  if (source.kind == SourceKind::kGenerated || source.kind == SourceKind::kFolds) return kSplits;
  if (source.kind == SourceKind::kPictures) {
    return image_dataset_splits({.path = spec.path, .holdout = 0});
  }
  std::vector<std::string> splits;
  for (const std::string& split : kSplits) {
    if (source.files.contains(split)) splits.push_back(split);
  }
  return splits;
}

// Reads pictures as sequences: grey, row after row, token = value + 1. All pictures must be of one
// size.
class PixelSequences : public SequenceDataset {
 public:
  PixelSequences(std::unique_ptr<ImageDataset> pictures, int64_t max_length)
      : pictures_(std::move(pictures)) {
    const Image first = pictures_->image(0);
    width_ = first.width;
    height_ = first.height;
    length_ = width_ * height_;
    if (max_length > 0) length_ = std::min(length_, max_length);
  }

  int64_t size() const override { return pictures_->size(); }
  int64_t label(int64_t i) const override { return pictures_->label(i); }
  int64_t length(int64_t) const override { return length_; }
  const std::vector<std::string>& classes() const override { return pictures_->classes(); }
  SequenceCoding coding() const override { return {"pixels", 257, false}; }
  std::string format() const override { return "pixels"; }
  std::string name(int64_t i) const override { return pictures_->name(i); }

  SequenceSample sample(int64_t i) const override {
    const Image image = to_channels(pictures_->image(i), 1);
    if (image.width != width_ || image.height != height_) {
      fail_data("The picture '", name(i), "' is ", image.width, " x ", image.height,
                ", the first one ", width_, " x ", height_,
                "; pixels as sequences need pictures of one size.");
    }
    SequenceSample sample;
    sample.label = label(i);
    sample.tokens.resize(static_cast<size_t>(length_));
    std::transform(image.pixels.begin(), image.pixels.begin() + length_, sample.tokens.begin(),
                   [](uint8_t value) { return int32_t{value} + 1; });
    return sample;
  }

 private:
  std::unique_ptr<ImageDataset> pictures_;
  int64_t width_ = 0, height_ = 0, length_ = 0;
};

Opened stored(SequenceRows rows, const SequenceSpec& spec) {
  return std::make_unique<StoredSequences>(std::move(rows), spec.max_length);
}

// Checks that all expressions, each with an overhead of about 64 bytes, fit in memory.
void check_memory(int64_t needed) {
  const int64_t available = available_bytes();
  if (available == 0 || needed <= available) return;
  fail_data("The expressions need up to ", human_bytes(needed), " of memory, but ",
            human_bytes(available), " are available; take fewer or shorter ones.");
}

Opened open_generated(const SequenceSpec& spec, const std::string& split) {
  constexpr auto parallel = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
    at::parallel_for(0, tasks, 64, [&](int64_t begin, int64_t end) { body(begin, end); });
  };
  const int64_t size = generated_size(spec, split);
  check_listops_rules(listops_rules(spec));
  check_memory(checked_mul(size, spec.max_tokens + 64, "Generated ListOps"));
  return stored(generated_listops(listops_rules(spec), spec.seed, split, size, parallel), spec);
}

Opened open_table(const SequenceSource& source, const SequenceSpec& spec,
                  const std::string& split) {
  const std::string& path = source.files.at(split);
  if (source.format == "listops") return stored(read_listops(path), spec);
  const bool pairs = source.format == "retrieval";
  return stored(read_text_table(path, table_classes(first_split(source.files), pairs), pairs),
                spec);
}

Opened open_texts(const SequenceSource& source, const SequenceSpec& spec,
                  const std::string& split) {
  return stored(read_text_folders(source.files.at(split), text_classes(first_split(source.files)),
                                  spec.max_length),
                spec);
}

Opened open_fold(const SequenceSource& source, const SequenceSpec& spec, const std::string& split) {
  std::shared_ptr<const SequenceDataset> whole = open_texts(source, spec, "train");
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < whole->size(); ++i) {
    if (fold_of(fs::path(whole->name(i)).filename().string()) == split) indices.push_back(i);
  }
  if (indices.empty()) {
    fail_data("'", spec.path, "' has no file of the ", split, " fold (cvNNN_...).");
  }
  return std::make_unique<SequenceSubset>(std::move(whole), std::move(indices));
}

Opened open_source(const SequenceSource& source, const SequenceSpec& spec,
                   const std::string& split) {
  switch (source.kind) {
    case SourceKind::kGenerated:
      return open_generated(spec, split);
    case SourceKind::kTables:
      return open_table(source, spec, split);
    case SourceKind::kFolders:
      return open_texts(source, spec, split);
    case SourceKind::kFolds:
      return open_fold(source, spec, split);
    case SourceKind::kPictures:
      break;
  }
  return std::make_unique<PixelSequences>(
      open_image_dataset({.path = spec.path, .holdout = 0}, split), spec.max_length);
}

}  // namespace

void check_sequence_spec(const SequenceSpec& spec) {
  if (!is_sequence_format(spec.format)) {
    fail_usage("Unknown format of sequences '", spec.format, "'; use ",
               join(kSequenceFormats, ", "), ".", did_you_mean(spec.format, kSequenceFormats));
  }
  check_holdout(spec.holdout);
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

bool is_sequence_data(const SequenceSpec& spec) {
  if (spec.format != "auto") return is_sequence_format(spec.format);
  if (is_plain_file(spec.path)) return true;
  if (is_folder(spec.path)) {
    return !holds_pictures(spec.path) && find_sequences(spec).kind != SourceKind::kPictures;
  }
  try {
    find_sequences(spec);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> sequence_dataset_splits(const SequenceSpec& spec) {
  return available_splits(stored_splits(find_sequences(spec), spec), spec.holdout);
}

std::unique_ptr<SequenceDataset> open_sequence_dataset(const SequenceSpec& spec,
                                                       const std::string& split) {
  const std::string wanted = checked_split(split);
  const SequenceSource source = find_sequences(spec);
  return open_split<SequenceSubset>(
      spec.path, stored_splits(source, spec), spec.holdout, wanted,
      [&](const std::string& name) { return open_source(source, spec, name); });
}

}  // namespace tost
