#include "tost/io/preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr int64_t kMaxSide = 8192;

// The fraction bits of fixed-point weights: 32 bits minus 8 for the pixel and 2 for sign and
// overshoot. The absolute weights of the cubic sum to less than 1.5.
constexpr int kFractionBits = 32 - 8 - 2;

double filter_value(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// One axis of a box, in which `input` positions from `begin` on map to `output` positions. Only the
// `count` output positions from `first` on are needed.
struct Axis {
  int64_t begin = 0;
  int64_t input = 0;
  int64_t output = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// For each output position, the first input position and `taps` weights (zero beyond the last).
// Input positions count from `begin`, the first of `span` positions.
struct Weights {
  int64_t begin = 0;
  int64_t span = 0;
  int64_t taps = 0;  // 0: the pixels stay as they are
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<int32_t> values;  // [wanted, taps]
};

// Makes positions count from the first needed one; the range of inputs moves with the output
// position.
void begin_at_first(Weights& weights, int64_t axis_begin) {
  const int64_t begin = weights.first.front();
  weights.begin = axis_begin + begin;
  weights.span = weights.first.back() + weights.count.back() - begin;
  for (int64_t& first : weights.first) first -= begin;
}

Weights make_weights(const Axis& axis, Filter filter) {
  Weights weights;
  if (axis.input == axis.output) {
    weights.begin = axis.begin + axis.first;
    weights.span = axis.count;
    return weights;
  }
  const double scale = static_cast<double>(axis.input) / static_cast<double>(axis.output);
  const double stretch = std::max(scale, 1.0);
  const double support = (filter == Filter::kBilinear ? 1.0 : 2.0) * stretch;
  weights.taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  weights.values.resize(static_cast<size_t>(axis.count * weights.taps));
  std::vector<double> exact(static_cast<size_t>(weights.taps));
  for (int64_t i = 0; i < axis.count; ++i) {
    const double center = (static_cast<double>(axis.first + i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), axis.input);
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) / stretch;
      exact[static_cast<size_t>(x - first)] = filter_value(filter, distance);
      sum += exact[static_cast<size_t>(x - first)];
    }
    for (int64_t x = 0; x < last - first; ++x) {
      const double value = std::ldexp(exact[static_cast<size_t>(x)] / sum, kFractionBits);
      weights.values[static_cast<size_t>(i * weights.taps + x)] =
          static_cast<int32_t>(std::round(value));
    }
    weights.first.push_back(first);
    weights.count.push_back(last - first);
  }
  begin_at_first(weights, axis.begin);
  return weights;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

template <int kChannels>
void filter_row(const uint8_t* from, const Weights& weights, uint8_t* to) {
  const auto output = static_cast<int64_t>(weights.first.size());
  for (int64_t i = 0; i < output; ++i) {
    const int32_t* weight = weights.values.data() + i * weights.taps;
    const uint8_t* pixel = from + weights.first[static_cast<size_t>(i)] * kChannels;
    int32_t sums[kChannels];
    std::fill(sums, sums + kChannels, int32_t{1} << (kFractionBits - 1));
    for (int64_t k = 0; k < weights.count[static_cast<size_t>(i)]; ++k, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[c] += weight[k] * pixel[c];
    }
    for (int c = 0; c < kChannels; ++c) *to++ = to_byte(sums[c]);
  }
}

// Resizes the rows of `box`, the part of the image that the weights need.
Image filter_rows(const Image& image, const Box& box, const Weights& weights) {
  if (weights.taps == 0) return crop(image, box);
  Image result(std::ssize(weights.first), box.height, image.channels);
  for (int64_t y = 0; y < box.height; ++y) {
    const uint8_t* from = image.row(box.y + y) + box.x * image.channels;
    if (image.channels == 1) {
      filter_row<1>(from, weights, result.row(y));
    } else {
      filter_row<3>(from, weights, result.row(y));
    }
  }
  return result;
}

Image filter_columns(const Image& image, const Box& box, const Weights& weights) {
  if (weights.taps == 0) return crop(image, box);
  Image result(box.width, std::ssize(weights.first), image.channels);
  const int64_t row_size = box.width * image.channels;
  std::vector<int32_t> sums(static_cast<size_t>(row_size));
  for (int64_t y = 0; y < result.height; ++y) {
    std::fill(sums.begin(), sums.end(), int32_t{1} << (kFractionBits - 1));
    const int64_t first = box.y + weights.first[static_cast<size_t>(y)];
    for (int64_t k = 0; k < weights.count[static_cast<size_t>(y)]; ++k) {
      const int32_t weight = weights.values[static_cast<size_t>(y * weights.taps + k)];
      const uint8_t* row = image.row(first + k) + box.x * image.channels;
      for (int64_t x = 0; x < row_size; ++x) sums[static_cast<size_t>(x)] += weight * row[x];
    }
    uint8_t* to = result.row(y);
    for (int64_t x = 0; x < row_size; ++x) to[x] = to_byte(sums[static_cast<size_t>(x)]);
  }
  return result;
}

Image filter_both(const Image& image, const Axis& x, const Axis& y, Filter filter) {
  const Weights across = make_weights(x, filter);
  const Weights down = make_weights(y, filter);
  const Box needed{across.begin, down.begin, across.span, down.span};
  const auto whole = [](const Image& half) { return Box{0, 0, half.width, half.height}; };
  // Selects the order of the passes, which affects the result, because each pass rounds and clips.
  // The rule is that of Pillow 13 (checked for 3,922 random sizes); earlier versions begin with the
  // rows.
  const int64_t rows_saved = y.input - y.output;
  if (rows_saved > 0 && rows_saved > 2 * (x.input - x.output)) {
    const Image shorter = filter_columns(image, needed, down);
    return filter_rows(shorter, whole(shorter), across);
  }
  const Image narrower = filter_rows(image, needed, across);
  return filter_columns(narrower, whole(narrower), down);
}

void check_box(const Box& box, int64_t width, int64_t height) {
  const bool inside = box.x >= 0 && box.y >= 0 && box.width >= 1 && box.height >= 1 &&
                      box.width <= width && box.x <= width - box.width && box.height <= height &&
                      box.y <= height - box.height;
  if (!inside) {
    fail_usage("The box ", box.width, "x", box.height, " at (", box.x, ", ", box.y,
               ") is not inside the ", width, "x", height, " image.");
  }
}

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

Filter filter_from_name(const std::string& name) {
  if (name == "bilinear") return Filter::kBilinear;
  if (name == "bicubic") return Filter::kBicubic;
  fail_usage("Unknown interpolation '", name, "'; use bilinear or bicubic.",
             did_you_mean(name, {"bilinear", "bicubic"}));
}

Image crop(const Image& image, const Box& box) {
  check_box(box, image.width, image.height);
  if (box.width == image.width && box.height == image.height) return image;
  Image result(box.width, box.height, image.channels);
  for (int64_t y = 0; y < box.height; ++y) {
    std::memcpy(result.row(y), image.row(box.y + y) + box.x * image.channels,
                static_cast<size_t>(box.width * image.channels));
  }
  return result;
}

Image resize(const Image& image, int64_t width, int64_t height, Filter filter) {
  return resize(image, {0, 0, image.width, image.height}, width, height, filter);
}

Image resize(const Image& image, const Box& box, int64_t width, int64_t height, Filter filter) {
  check_box(box, image.width, image.height);
  if (width < 1 || height < 1) fail_usage("Cannot resize to ", width, "x", height, " pixels.");
  return filter_both(image, {box.x, box.width, width, 0, width},
                     {box.y, box.height, height, 0, height}, filter);
}

Image resize_part(const Image& image, int64_t width, int64_t height, const Box& part,
                  Filter filter) {
  check_box({0, 0, image.width, image.height}, image.width, image.height);
  check_box(part, width, height);
  return filter_both(image, {0, image.width, width, part.x, part.width},
                     {0, image.height, height, part.y, part.height}, filter);
}

}  // namespace tost
