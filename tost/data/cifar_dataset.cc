#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/data/dataset.h"
#include "tost/io/cifar.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

}  // namespace tost
