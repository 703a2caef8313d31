// Pictures of one size held decoded in memory: idx and CIFAR.
#pragma once

#include "tost/data/dataset.h"

namespace tost {

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
  // Lengths must agree and labels lie below classes.size(); the readers have checked both.
  explicit MemoryDataset(MemoryImages data);

  int64_t size() const override { return static_cast<int64_t>(data_.labels.size()); }
  const std::vector<std::string>& classes() const override { return data_.classes; }
  int64_t label(int64_t i) const override { return data_.labels[static_cast<size_t>(i)]; }
  Image image(int64_t i) const override;
  std::string name(int64_t i) const override;
  std::string format() const override { return data_.format; }
  int64_t channels() const override { return data_.channels; }
  int64_t side() const override { return data_.width == data_.height ? data_.width : 0; }

 private:
  MemoryImages data_;
};

// Readers; `directory` holds the files, `split` is "train", "validation" or "test".
bool has_idx_split(const std::string& directory, const std::string& split);
std::unique_ptr<ImageDataset> open_idx(const std::string& directory, const std::string& split);

bool has_cifar_split(const std::string& directory, const std::string& split);
// format: "cifar10" or "cifar100".
std::unique_ptr<ImageDataset> open_cifar(const std::string& directory, const std::string& format,
                                         const std::string& split);

}  // namespace tost
