#include "tost/data/sequence_pixels.h"

#include <algorithm>

#include "tost/base/error.h"

namespace tost {
PixelSequences::PixelSequences(std::shared_ptr<const ImageDataset> pictures, std::string format,
                               int64_t max_length)
    : pictures_(std::move(pictures)), format_(std::move(format)) {
  const Image first = pictures_->image(0);
  width_ = first.width;
  height_ = first.height;
  length_ = width_ * height_;
  if (max_length > 0) length_ = std::min(length_, max_length);
}

SequenceSample PixelSequences::sample(int64_t i) const {
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

}  // namespace tost
