// Recognises and opens data sets of pictures.
#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/dataset.h"
#include "tost/io/folder_dataset.h"
#include "tost/io/named_sets.h"
#include "tost/io/shapes.h"
#include "tost/io/views.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// Opens a split of a data set by its reader.
struct Wanted {
  const DataSpec& spec;
  std::string directory;
  std::string split;
};

struct ImageFormat {
  const char* name;
  // Whether a directory holds data of this format; null for generated data, which have no
  // directory.
  bool (*holds)(const std::string& directory);
  const char* place;  // a folder in the directory that may hold the data instead
  bool (*has_split)(const std::string& directory, const std::string& split);
  std::unique_ptr<ImageDataset> (*open)(const Wanted& wanted);
};

bool any_split(const std::string& directory, bool (*has)(const std::string&, const std::string&)) {
  return std::any_of(kSplits.begin(), kSplits.end(),
                     [&](const std::string& split) { return has(directory, split); });
}

bool holds_cifar(const std::string& directory, const char* names) {
  return is_plain_file(fs::path(directory) / names) && any_split(directory, has_cifar_split);
}

// Whether a directory holds class folders without splits, which are the training split.
bool flat(const std::string& directory) {
  return split_folders(directory).empty();
}

bool has_folder_split(const std::string& directory, const std::string& split) {
  return flat(directory) ? split == "train" : !split_folder(directory, split).empty();
}

std::unique_ptr<ImageDataset> open_shapes(const Wanted& w) {
  const int64_t size = w.split == "train" ? w.spec.train_size : w.spec.test_size;
  return std::make_unique<CachedDataset>(
      std::make_unique<ShapesDataset>(w.spec.seed, w.split, w.spec.side, size), w.spec.cache_bytes);
}

std::unique_ptr<ImageDataset> open_folder(const Wanted& w) {
  std::unique_ptr<FolderDataset> data;
  if (flat(w.directory)) {
    data = std::make_unique<FolderDataset>(w.directory, std::vector<std::string>{});
  } else {
    // Numbers the classes of all splits like those of the first split.
    const auto first = std::find_if(kSplits.begin(), kSplits.end(), [&](const std::string& one) {
      return has_folder_split(w.directory, one);
    });
    data = std::make_unique<FolderDataset>(split_folder(w.directory, w.split),
                                           class_folders(split_folder(w.directory, *first)));
  }
  return std::make_unique<CachedDataset>(std::move(data), w.spec.cache_bytes);
}

// The formats, in the order in which a directory is examined.
const ImageFormat kImageFormats[] = {
    {"shapes", nullptr, "", [](const std::string&, const std::string&) { return true; },
     open_shapes},
    {"cifar10", [](const std::string& d) { return holds_cifar(d, "batches.meta.txt"); },
     "cifar-10-batches-bin", has_cifar_split,
     [](const Wanted& w) { return open_cifar(w.directory, "cifar10", w.split); }},
    {"cifar100", [](const std::string& d) { return holds_cifar(d, "fine_label_names.txt"); },
     "cifar-100-binary", has_cifar_split,
     [](const Wanted& w) { return open_cifar(w.directory, "cifar100", w.split); }},
    {"idx", [](const std::string& d) { return any_split(d, has_idx_split); }, "raw", has_idx_split,
     [](const Wanted& w) { return open_idx(w.directory, w.split); }},
    {"folder", [](const std::string& d) { return !flat(d); }, "images", has_folder_split,
     open_folder},
};

struct Source {
  const ImageFormat* format;
  std::string directory;

  bool has(const std::string& split) const { return format->has_split(directory, split); }
};

void check_spec(const DataSpec& spec) {
  const auto formats = image_formats();
  if (std::find(formats.begin(), formats.end(), spec.format) == formats.end()) {
    fail_usage("Unknown data format '", spec.format, "'; use ", join(formats, ", "), ".",
               did_you_mean(spec.format, formats));
  }
  check_holdout(spec.holdout);
}

bool is_requested(const ImageFormat& format, const DataSpec& spec) {
  return spec.format == "auto" || spec.format == format.name;
}

// Recognises the format of a directory.
Source resolve_directory(const DataSpec& spec) {
  for (const ImageFormat& format : kImageFormats) {
    if (format.holds == nullptr || !is_requested(format, spec)) continue;
    for (const std::string& directory :
         {spec.path, (fs::path(spec.path) / format.place).string()}) {
      if (format.holds(directory)) return {&format, directory};
    }
    const bool folder = format.open == open_folder;
    if (folder && !class_folders(spec.path).empty()) return {&format, spec.path};
    // Does not report a missing file if the format is named, because the reader will report it.
    if (spec.format == format.name && !folder) return {&format, spec.path};
  }
  fail_data("'", spec.path,
            "' holds no data set that is known here: no idx files, no CIFAR .bin "
            "files with their class names, no train/ folder with a folder a class.");
}

Source resolve(const DataSpec& spec) {
  check_spec(spec);
  for (const ImageFormat& format : kImageFormats) {
    const bool named =
        spec.format == format.name || (spec.format == "auto" && spec.path == format.name);
    if (format.holds == nullptr && named) return {&format, ""};
  }
  if (is_folder(spec.path)) return resolve_directory(spec);
  if (path_exists(spec.path)) {
    fail_data("'", spec.path, "' is a file; the data set needs a directory.");
  }
  fail_data("There is no directory '", spec.path,
            "'; give a data set's directory, or 'shapes' for the generated one.",
            origin_of(spec.path));
}

std::vector<std::string> stored_image_splits(const Source& source) {
  std::vector<std::string> splits;
  for (const std::string& split : kSplits) {
    if (source.has(split)) splits.push_back(split);
  }
  return splits;
}

}  // namespace

std::vector<std::string> image_formats() {
  std::vector<std::string> names{"auto"};
  for (const ImageFormat& format : kImageFormats) names.emplace_back(format.name);
  return names;
}

std::vector<std::string> image_dataset_splits(const DataSpec& spec) {
  return available_splits(stored_image_splits(resolve(spec)), spec.holdout);
}

std::string image_dataset_format(const DataSpec& spec) {
  return resolve(spec).format->name;
}

std::unique_ptr<ImageDataset> open_image_dataset(const DataSpec& spec, const std::string& split) {
  const std::string wanted = checked_split(split);
  const Source source = resolve(spec);
  return open_split<SubsetDataset>(spec.path, stored_image_splits(source), spec.holdout, wanted,
                                   [&](const std::string& name) {
                                     return source.format->open({spec, source.directory, name});
                                   });
}

ChannelStats channel_stats(const ImageDataset& train, int64_t channels) {
  if (train.format() == "folder") return imagenet_stats(channels);
  constexpr int64_t kMost = 10'000;
  const int64_t used = std::min(train.size(), kMost);
  std::vector<int64_t> counts(static_cast<size_t>(channels) * 256);
  for (int64_t i = 0; i < used; ++i) {
    // Takes evenly spaced pictures; the product of these sizes cannot overflow.
    const Image image = to_channels(train.image(i * train.size() / used), channels);
    for (size_t k = 0; k < image.pixels.size(); ++k) {
      ++counts[k % static_cast<size_t>(channels) * 256 + image.pixels[k]];
    }
  }
  ChannelStats stats;
  for (int64_t c = 0; c < channels; ++c) {
    double n = 0, sum = 0, squares = 0;
    for (int value = 0; value < 256; ++value) {
      const auto count = static_cast<double>(counts[static_cast<size_t>(c * 256 + value)]);
      n += count;
      sum += count * value / 255.0;
      squares += count * (value / 255.0) * (value / 255.0);
    }
    const double mean = sum / n;
    const double variance = std::max(squares / n - mean * mean, 0.0);
    stats.mean.push_back(mean);
    stats.std.push_back(variance > 1e-6 ? std::sqrt(variance) : 1.0);  // constant pictures
  }
  return stats;
}

}  // namespace tost
