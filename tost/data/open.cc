#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/folder_dataset.h"
#include "tost/data/named_sets.h"
#include "tost/data/shapes.h"
#include "tost/data/views.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFormats = {"auto",     "idx",    "cifar10",
                                           "cifar100", "folder", "shapes"};

struct Source {
  std::string format;
  std::string directory;
  bool flat = false;  // class folders without splits above them
};

bool has_file(const fs::path& directory, const char* name) {
  return is_plain_file(directory / name);
}

bool has_any_split(const std::string& directory,
                   bool (*has)(const std::string&, const std::string&)) {
  return std::any_of(kSplits.begin(), kSplits.end(),
                     [&](const std::string& split) { return has(directory, split); });
}

// Whether `directory` itself holds data of this format.
bool holds(const std::string& format, const std::string& directory) {
  if (format == "cifar10") {
    return has_file(directory, "batches.meta.txt") && has_any_split(directory, has_cifar_split);
  }
  if (format == "cifar100") {
    return has_file(directory, "fine_label_names.txt") && has_any_split(directory, has_cifar_split);
  }
  if (format == "idx") return has_any_split(directory, has_idx_split);
  return !split_folders(directory).empty();
}

std::vector<std::string> usual_places(const std::string& format) {
  if (format == "cifar10") return {"", "cifar-10-batches-bin"};
  if (format == "cifar100") return {"", "cifar-100-binary"};
  if (format == "idx") return {"", "raw"};
  return {"", "images"};
}

void check_spec(const DataSpec& spec) {
  if (std::find(kFormats.begin(), kFormats.end(), spec.format) == kFormats.end()) {
    fail_usage("Unknown data format '", spec.format, "'; use ", join(kFormats, ", "), ".",
               did_you_mean(spec.format, kFormats));
  }
  if (spec.holdout != -1 && !(spec.holdout >= 0 && spec.holdout < 1)) {
    fail_usage("The held-out share lies between 0 and 1 (excluded), or is -1 for the default, not ",
               spec.holdout, ".");
  }
}

Source resolve(const DataSpec& spec) {
  check_spec(spec);
  if (spec.format == "shapes" || (spec.format == "auto" && spec.path == "shapes")) {
    return {"shapes", ""};
  }
  if (!is_folder(spec.path)) {
    if (path_exists(spec.path)) {
      fail_data("'", spec.path, "' is a file; the data set needs a directory.");
    }
    fail_data("There is no directory '", spec.path,
              "'; give a data set's directory, or 'shapes' for the generated one.",
              origin_of(spec.path));
  }
  for (const char* format : {"cifar10", "cifar100", "idx", "folder"}) {
    if (spec.format != "auto" && spec.format != format) continue;
    for (const std::string& place : usual_places(format)) {
      const std::string directory =
          place.empty() ? spec.path : (fs::path(spec.path) / place).string();
      if (holds(format, directory)) return {format, directory};
    }
    // Named explicitly: the reader itself will say which file is missing.
    if (spec.format == format && spec.format != "folder") return {format, spec.path};
  }
  if (!class_folders(spec.path).empty()) return {"folder", spec.path, true};
  fail_data("'", spec.path,
            "' holds no data set that is known here: no idx files, no CIFAR .bin "
            "files with their class names, no train/ folder with a folder a class.");
}

bool has_own_split(const Source& source, const std::string& split) {
  if (source.format == "shapes") return true;
  if (source.format == "idx") return has_idx_split(source.directory, split);
  if (source.format == "folder") {
    return source.flat ? split == "train" : !split_folder(source.directory, split).empty();
  }
  return has_cifar_split(source.directory, split);
}

std::unique_ptr<ImageDataset> open_folder(const Source& source, const std::string& split,
                                          int64_t cache_bytes) {
  std::unique_ptr<FolderDataset> data;
  if (source.flat) {
    data = std::make_unique<FolderDataset>(source.directory, std::vector<std::string>{});
  } else {
    // All splits count their classes as the first of them does.
    const auto first = std::find_if(kSplits.begin(), kSplits.end(), [&](const std::string& one) {
      return has_own_split(source, one);
    });
    data = std::make_unique<FolderDataset>(split_folder(source.directory, split),
                                           class_folders(split_folder(source.directory, *first)));
  }
  return std::make_unique<CachedDataset>(std::move(data), cache_bytes);
}

std::unique_ptr<ImageDataset> open_own(const Source& source, const DataSpec& spec,
                                       const std::string& split) {
  if (source.format == "idx") return open_idx(source.directory, split);
  if (source.format == "folder") return open_folder(source, split, spec.cache_bytes);
  if (source.format != "shapes") return open_cifar(source.directory, source.format, split);
  const int64_t size = split == "train" ? spec.train_size : spec.test_size;
  auto shapes = std::make_unique<ShapesDataset>(spec.seed, split, spec.side, size);
  return std::make_unique<CachedDataset>(std::move(shapes), spec.cache_bytes);
}

std::string checked_split(const std::string& split) {
  if (split == "val") return "validation";
  if (std::find(kSplits.begin(), kSplits.end(), split) == kSplits.end()) {
    fail_usage("Unknown split '", split, "'; use train, validation or test.",
               did_you_mean(split, kSplits));
  }
  return split;
}

std::vector<std::string> available_splits(const Source& source, double holdout) {
  std::vector<std::string> splits;
  for (const std::string& split : kSplits) {
    const bool held_out = split == "validation" && holdout != 0 && has_own_split(source, "train");
    if (held_out || has_own_split(source, split)) splits.push_back(split);
  }
  return splits;
}

}  // namespace

std::vector<std::string> image_dataset_splits(const DataSpec& spec) {
  return available_splits(resolve(spec), spec.holdout);
}

std::string image_dataset_format(const DataSpec& spec) {
  return resolve(spec).format;
}

std::unique_ptr<ImageDataset> open_image_dataset(const DataSpec& spec, const std::string& split) {
  const std::string wanted = checked_split(split);
  const Source source = resolve(spec);
  const std::vector<std::string> splits = available_splits(source, spec.holdout);
  if (!splits.empty() && std::find(splits.begin(), splits.end(), wanted) == splits.end()) {
    fail_data("'", spec.path, "' has no ", wanted, " split; it has ", join(splits, ", "),
              wanted == "validation" && has_own_split(source, "train")
                  ? " (a held-out share of train above 0 would give one)."
                  : ".");
  }
  const bool from_train = !has_own_split(source, "validation") && spec.holdout != 0;
  if (!from_train || wanted == "test") return open_own(source, spec, wanted);
  std::shared_ptr<const ImageDataset> whole = open_own(source, spec, "train");
  Holdout holdout = split_holdout(whole->size(), spec.holdout);
  return std::make_unique<SubsetDataset>(std::move(whole), wanted == "train"
                                                               ? std::move(holdout.train)
                                                               : std::move(holdout.validation));
}

}  // namespace tost
