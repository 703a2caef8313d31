#include "tost/data/sequence_pixels.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"

namespace tost {
namespace {

class SquarePictures : public ImageDataset {
 public:
  SquarePictures(std::shared_ptr<const SequenceDataset> data, int64_t side)
      : data_(std::move(data)), side_(side) {}

  int64_t size() const override { return data_->size(); }
  const std::vector<std::string>& classes() const override { return data_->classes(); }
  int64_t label(int64_t i) const override { return data_->label(i); }
  Image image(int64_t i) const override {
    const SequenceSample sample = data_->sample(i);
    Image image(side_, side_, 1);
    std::transform(sample.tokens.begin(), sample.tokens.end(), image.pixels.begin(),
                   [](int32_t token) { return static_cast<uint8_t>(token - 1); });
    return image;
  }
  std::string name(int64_t i) const override { return data_->name(i); }
  std::string format() const override { return data_->format(); }
  int64_t channels() const override { return 1; }
  int64_t side() const override { return side_; }

 private:
  std::shared_ptr<const SequenceDataset> data_;
  int64_t side_;
};

}  // namespace

std::unique_ptr<ImageDataset> pictures_of(std::shared_ptr<const SequenceDataset> data) {
  if (data->coding().kind != "pixels") {
    fail_usage("Sequences of ", data->coding().kind, " have no pictures to show.");
  }
  const int64_t length = data->length(0);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(length))));
  if (side * side != length) {
    fail_usage("Sequences of ", length, " pixels are not square pictures.");
  }
  return std::make_unique<SquarePictures>(std::move(data), side);
}
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
