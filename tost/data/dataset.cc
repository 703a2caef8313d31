#include "tost/data/dataset.h"

#include <cstring>

#include "tost/base/error.h"

namespace tost {

Image ImageDataset::mask(int64_t i) const {
  fail_usage("The pictures of '", name(i), "' have no masks; the generated set 'shapes' has.");
}

MemoryDataset::MemoryDataset(MemoryImages data) : data_(std::move(data)) {}

Image MemoryDataset::image(int64_t i) const {
  Image image;
  image.width = data_.width;
  image.height = data_.height;
  image.channels = data_.channels;
  const int64_t bytes = data_.width * data_.height * data_.channels;
  const uint8_t* from = data_.pixels.data() + i * bytes;
  image.pixels.assign(from, from + bytes);
  return image;
}

std::string MemoryDataset::name(int64_t i) const {
  return cat(data_.source, "#", i);
}

}  // namespace tost
