#include "tost/io/preprocess.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr int64_t kMaxSide = 8192;

}  // namespace

void check_preprocess(const Preprocess& p) {
  if (p.size < 1 || p.size > kMaxSide) {
    fail_usage("The input side is 1 to ", kMaxSide, " pixels, not ", p.size, ".");
  }
  if (p.channels != 1 && p.channels != 3) {
    fail_usage("The input has 1 (grey) or 3 (RGB) channels, not ", p.channels, ".");
  }
  if (p.resize != "crop" && p.resize != "squeeze") {
    fail_usage("Unknown resize mode '", p.resize, "'; use crop or squeeze.",
               did_you_mean(p.resize, {"crop", "squeeze"}));
  }
  if (!(p.crop_ratio > 0.1) || p.crop_ratio > 1) {
    fail_usage("The crop ratio lies between 0.1 and 1, not ", p.crop_ratio, ".");
  }
  filter_from_name(p.interpolation);
  for (const auto* values : {&p.mean, &p.std}) {
    if (!values->empty() && static_cast<int64_t>(values->size()) != p.channels) {
      fail_usage("Mean and std need one value for each of the ", p.channels, " channels, not ",
                 values->size(), ".");
    }
  }
  for (double value : p.mean) {
    if (!std::isfinite(value)) fail_usage("A channel's mean is not finite.");
  }
  for (double value : p.std) {
    if (!std::isfinite(value) || value <= 0) {
      fail_usage("A channel's std must be above 0, not ", value, ".");
    }
  }
}

Image fit_image(const Image& original, const Preprocess& p) {
  const Image image = to_channels(original, p.channels);
  const Filter filter = filter_from_name(p.interpolation);
  if (p.resize == "squeeze") return resize(image, p.size, p.size, filter);
  // Adds 1e-6 against rounding errors, because 224 / 0.875 must give 256.
  const auto shorter =
      static_cast<int64_t>(std::floor(static_cast<double>(p.size) / p.crop_ratio + 1e-6));
  // Rounds the longer side down, as torchvision does.
  const bool upright = image.width < image.height;
  const int64_t width = upright ? shorter : shorter * image.width / image.height;
  const int64_t height = upright ? shorter * image.height / image.width : shorter;
  // Rounds halves to even, as Python does.
  const auto margin = [&](int64_t side) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - p.size) / 2));
  };
  // Resizes only the part that is used, because a picture of 1 x 60,000 pixels would need 16
  // million rows.
  return resize_part(image, width, height, {margin(width), margin(height), p.size, p.size}, filter);
}

Normalizer::Normalizer(const Preprocess& p) : channels_(p.channels) {
  for (int64_t c = 0; c < channels_; ++c) {
    const double mean = p.mean.empty() ? 0 : p.mean[static_cast<size_t>(c)];
    const double std = p.std.empty() ? 1 : p.std[static_cast<size_t>(c)];
    for (int value = 0; value < 256; ++value) {
      table_.push_back(static_cast<float>((value / 255.0 - mean) / std));
    }
  }
}

void Normalizer::operator()(const Image& image, float* to) const {
  const int64_t plane = image.width * image.height;
  for (int64_t c = 0; c < channels_; ++c) {
    const float* table = table_.data() + c * 256;
    const uint8_t* from = image.pixels.data() + c;
    for (int64_t i = 0; i < plane; ++i) *to++ = table[from[i * channels_]];
  }
}

ChannelStats imagenet_stats(int64_t channels) {
  if (channels == 1) return {{0.449}, {0.226}};
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
}

}  // namespace tost
