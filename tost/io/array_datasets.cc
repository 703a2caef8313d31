// Reads whole data sets of idx files (MNIST) and CIFAR into memory.
#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/dataset.h"
#include "tost/io/picture_files.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// Decoded pictures of one size in memory, for idx files and CIFAR.
struct MemoryImages {
  std::string format;
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [size, height, width, channels]
  std::vector<uint8_t> labels;  // [size]
  std::vector<std::string> classes;
  std::string source;  // the file or directory, for name()
};

class MemoryDataset : public ImageDataset {
 public:
  // The caller must check that lengths agree and labels are below classes.size().
  explicit MemoryDataset(MemoryImages data) : data_(std::move(data)) {}

  int64_t size() const override { return static_cast<int64_t>(data_.labels.size()); }
  const std::vector<std::string>& classes() const override { return data_.classes; }
  int64_t label(int64_t i) const override { return data_.labels[static_cast<size_t>(i)]; }
  Image image(int64_t i) const override {
    const int64_t bytes = data_.width * data_.height * data_.channels;
    const uint8_t* from = data_.pixels.data() + i * bytes;
    Image image;
    image.width = data_.width, image.height = data_.height, image.channels = data_.channels;
    image.pixels.assign(from, from + bytes);
    return image;
  }
  std::string name(int64_t i) const override { return cat(data_.source, "#", i); }
  std::string format() const override { return data_.format; }
  int64_t channels() const override { return data_.channels; }
  int64_t side() const override { return data_.width == data_.height ? data_.width : 0; }

 private:
  MemoryImages data_;
};

// The files of a split, sorted by name; empty if there is none.
std::vector<std::string> split_files(const std::string& directory, const std::string& split) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& name) {
    const fs::path path = fs::path(directory) / name;
    if (is_plain_file(path)) files.push_back(path.string());
  };
  if (split == "train") {
    for (int i = 1; i <= 9; ++i) add(cat("data_batch_", i, ".bin"));
  } else if (split == "test") {
    add("test_batch.bin");
  }
  if (files.empty()) add(split + ".bin");
  if (files.empty() && split == "validation") add("val.bin");
  return files;
}

// The possible prefixes of file names for each split.
std::vector<std::string> prefixes(const std::string& split) {
  if (split == "train") return {"train"};
  if (split == "test") return {"t10k", "test"};
  return {"validation", "val"};
}

// The file of a kind ("images-idx3", "labels-idx1") for a split; "" if there is none.
std::string find_file(const std::string& directory, const std::string& split,
                      const std::string& kind) {
  for (const std::string& prefix : prefixes(split)) {
    for (const char* dash : {"-", "."}) {  // some copies have "train-images.idx3-ubyte"
      std::string name = cat(prefix, "-", kind, "-ubyte");
      if (*dash == '.') name.replace(name.rfind("-idx"), 1, dash);
      for (const char* ending : {"", ".gz"}) {
        const fs::path path = fs::path(directory) / (name + ending);
        if (is_plain_file(path)) return path.string();
      }
    }
  }
  return "";
}

std::string need_file(const std::string& directory, const std::string& split,
                      const std::string& kind) {
  const std::string path = find_file(directory, split, kind);
  if (path.empty()) {
    fail_data("'", directory, "' has no ", prefixes(split)[0], "-", kind, "-ubyte or ",
              prefixes(split)[0], "-", kind, "-ubyte.gz for its ", split, " split.");
  }
  return path;
}

std::vector<std::string> class_names(const std::string& directory, int64_t count) {
  const fs::path names = fs::path(directory) / "classes.txt";
  if (path_exists(names)) return read_class_names(names.string());
  if (to_lower(absolute_path(directory).string()).find("fashion") != std::string::npos &&
      count == 10) {
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  }
  std::vector<std::string> digits;
  for (int64_t i = 0; i < count; ++i) digits.push_back(std::to_string(i));
  return digits;
}

}  // namespace

Image ImageDataset::mask(int64_t i) const {
  fail_usage("The pictures of '", name(i), "' have no masks; the generated set 'shapes' has.");
}

bool has_cifar_split(const std::string& directory, const std::string& split) {
  return !split_files(directory, split).empty();
}

std::unique_ptr<ImageDataset> open_cifar(const std::string& directory, const std::string& format,
                                         const std::string& split) {
  const bool fine = format == "cifar100";
  MemoryImages data;
  data.format = format;
  data.width = data.height = kCifarSide;
  data.channels = 3;
  data.source = (fs::path(directory) / split).string();
  const char* names = fine ? "fine_label_names.txt" : "batches.meta.txt";
  data.classes = read_class_names((fs::path(directory) / names).string());
  const std::vector<std::string> files = split_files(directory, split);
  if (files.empty()) {
    fail_data("'", directory, "' has no ", split, ".bin", fine ? "" : " or batch files",
              " for its ", split, " split.");
  }
  CifarRecords records;
  for (const std::string& file : files) {
    append_cifar(file, fine ? CifarKind::kCifar100 : CifarKind::kCifar10,
                 static_cast<int64_t>(data.classes.size()), records);
  }
  data.pixels = std::move(records.pixels);
  data.labels = std::move(records.labels);
  return std::make_unique<MemoryDataset>(std::move(data));
}

bool has_idx_split(const std::string& directory, const std::string& split) {
  return !find_file(directory, split, "images-idx3").empty();
}

std::unique_ptr<ImageDataset> open_idx(const std::string& directory, const std::string& split) {
  const std::string image_path = need_file(directory, split, "images-idx3");
  const std::string label_path = need_file(directory, split, "labels-idx1");
  IdxArray images = read_idx(image_path, 3);
  IdxArray labels = read_idx(label_path, 1);
  if (images.dims[0] != labels.dims[0]) {
    fail_data("'", image_path, "' holds ", images.dims[0], " pictures, but '", label_path,
              "' holds ", labels.dims[0], " labels.");
  }
  // Takes the classes from the training labels, so that all splits have the same classes.
  const std::string train_labels = find_file(directory, "train", "labels-idx1");
  uint8_t last = *std::max_element(labels.values.begin(), labels.values.end());
  if (split != "train" && !train_labels.empty()) {
    const IdxArray train = read_idx(train_labels, 1);
    last = *std::max_element(train.values.begin(), train.values.end());
  }
  MemoryImages data;
  data.format = "idx";
  data.height = images.dims[1];
  data.width = images.dims[2];
  data.channels = 1;
  data.classes = class_names(directory, int64_t{last} + 1);
  const auto bad = std::find_if(labels.values.begin(), labels.values.end(),
                                [&](uint8_t label) { return label >= data.classes.size(); });
  if (bad != labels.values.end()) {
    fail_data("'", label_path, "' has label ", int{*bad}, " at position ",
              bad - labels.values.begin(), ", but there are only ", data.classes.size(),
              " classes.");
  }
  data.pixels = std::move(images.values);
  data.labels = std::move(labels.values);
  data.source = image_path;
  return std::make_unique<MemoryDataset>(std::move(data));
}

}  // namespace tost
