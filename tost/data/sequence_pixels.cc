#include "tost/data/sequence_pixels.h"

#include <algorithm>

#include "tost/base/error.h"

namespace tost {
namespace {

int32_t grey(const uint8_t* pixel, int64_t channels) {
  if (channels == 1) return pixel[0];
  return (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;
}

}  // namespace

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
  const Image image = pictures_->image(i);
  if (image.width != width_ || image.height != height_) {
    fail_data("The picture '", name(i), "' is ", image.width, " x ", image.height,
              ", the first one ", width_, " x ", height_,
              "; pixels as sequences need pictures of one size.");
  }
  SequenceSample sample;
  sample.label = label(i);
  sample.tokens.resize(static_cast<size_t>(length_));
  for (int64_t p = 0; p < length_; ++p) {
    sample.tokens[static_cast<size_t>(p)] =
        grey(image.pixels.data() + p * image.channels, image.channels) + 1;
  }
  return sample;
}

}  // namespace tost
