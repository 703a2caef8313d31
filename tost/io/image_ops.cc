#include "tost/io/image_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"

namespace tost {
namespace {

using Table = std::array<uint8_t, 256>;

template <typename F>
Table make_table(F value) {
  Table table;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<size_t>(i)] =
        static_cast<uint8_t>(std::clamp(static_cast<int>(value(i)), 0, 255));
  }
  return table;
}

// One table a channel.
Image look_up(const Image& image, const std::vector<Table>& tables) {
  Image result = image;
  for (size_t c = 0; c < tables.size(); ++c) {
    const Table& table = tables[c];
    for (size_t i = c; i < result.pixels.size(); i += tables.size()) {
      result.pixels[i] = table[result.pixels[i]];
    }
  }
  return result;
}

template <typename F>
Image map_values(const Image& image, F value) {
  return look_up(image, {make_table(value)});
}

// Computes from + factor * (to - from) in float32, clipped to 0..255 and truncated, as Pillow's
// blend does.
uint8_t blend_value(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

Image blend(const Image& from, const Image& to, double factor) {
  Image result = to;
  for (size_t i = 0; i < result.pixels.size(); ++i) {
    result.pixels[i] = blend_value(from.pixels[i], to.pixels[i], static_cast<float>(factor));
  }
  return result;
}

// Counts how often each value occurs in each channel.
std::vector<std::array<int64_t, 256>> histograms(const Image& image) {
  std::vector<std::array<int64_t, 256>> counts(static_cast<size_t>(image.channels));
  for (size_t c = 0; c < counts.size(); ++c) {
    auto& count = counts[c];
    for (size_t i = c; i < image.pixels.size(); i += counts.size()) ++count[image.pixels[i]];
  }
  return counts;
}

// Smooths by the kernel 1 1 1 / 1 5 1 / 1 1 1 over 13; border pixels do not change.
Image smooth(const Image& image) {
  Image result = image;
  const int64_t step = image.channels;
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    for (int64_t x = step; x < (image.width - 1) * step; ++x) {
      int sum = 4 * image.row(y)[x];
      for (int64_t dy = -1; dy <= 1; ++dy) {
        const uint8_t* row = image.row(y + dy) + x;
        sum += row[-step] + row[0] + row[step];
      }
      result.row(y)[x] = static_cast<uint8_t>((2 * sum + 13) / 26);
    }
  }
  return result;
}

Table equalizing_table(const std::array<int64_t, 256>& counts) {
  int64_t total = 0, last = 0, kinds = 0;
  for (int64_t count : counts) {
    total += count;
    if (count > 0) last = count, ++kinds;
  }
  const int64_t step = kinds > 1 ? (total - last) / 255 : 0;
  if (step == 0) return make_table([](int v) { return v; });
  Table table;
  int64_t sum = step / 2;
  for (size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    sum += counts[v];
  }
  return table;
}

Table stretching_table(const std::array<int64_t, 256>& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  if (high <= low) return make_table([](int v) { return v; });
  const double scale = 255.0 / (high - low);
  return make_table([&](int v) { return static_cast<int>(v * scale + -low * scale); });
}

// Interpolates four values by a cubic at distance d in [0, 1) from the second value. Pillow uses a
// = -1 for transforms, and a = -0.5 for resizing.
double cubic(const double v[4], double d) {
  const double p2 = -v[0] + v[2];
  const double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
  const double p4 = -v[0] + v[1] - v[2] + v[3];
  return v[1] + d * (p2 + d * (p3 + d * p4));
}

// Rounds down without std::floor, which is a function call unless compiled for newer processors.
double floor_of(double value) {
  const auto cut = static_cast<double>(static_cast<int64_t>(value));
  return cut > value ? cut - 1 : cut;
}

// The offsets of the kTaps x kTaps pixels around a position; a pixel outside the picture is the
// nearest border pixel.
template <int kTaps>
struct Neighbours {
  Neighbours(const Image& image, double x, double y) {
    const double fx = floor_of(x - 0.5), fy = floor_of(y - 0.5);
    dx = x - 0.5 - fx, dy = y - 0.5 - fy;
    const auto left = static_cast<int64_t>(fx) - (kTaps / 2 - 1);
    const auto top = static_cast<int64_t>(fy) - (kTaps / 2 - 1);
    for (int64_t i = 0; i < kTaps; ++i) {
      rows[i] = image.row(std::clamp<int64_t>(top + i, 0, image.height - 1));
      columns[i] = std::clamp<int64_t>(left + i, 0, image.width - 1) * image.channels;
    }
  }

  int at(int64_t row, int64_t column, int64_t c) const { return rows[row][columns[column] + c]; }

  const uint8_t* rows[kTaps];
  int64_t columns[kTaps];
  double dx, dy;  // from the second of four, or the first of two, in [0, 1)
};

uint8_t linear(const Neighbours<2>& near, int64_t c) {
  const double top = near.at(0, 0, c) + near.dx * (near.at(0, 1, c) - near.at(0, 0, c));
  const double low = near.at(1, 0, c) + near.dx * (near.at(1, 1, c) - near.at(1, 0, c));
  return static_cast<uint8_t>(top + near.dy * (low - top));
}

uint8_t bicubic(const Neighbours<4>& near, int64_t c) {
  double rows[4];
  for (int64_t j = 0; j < 4; ++j) {
    double values[4];
    for (int64_t i = 0; i < 4; ++i) values[i] = near.at(j, i, c);
    rows[j] = cubic(values, near.dx);
  }
  return static_cast<uint8_t>(std::clamp(cubic(rows, near.dy), 0.0, 255.0));
}

template <int kTaps>
void sample(const Image& image, double x, double y, uint8_t* to) {
  const Neighbours<kTaps> near(image, x, y);
  for (int64_t c = 0; c < image.channels; ++c) {
    if constexpr (kTaps == 2) {
      to[c] = linear(near, c);
    } else {
      to[c] = bicubic(near, c);
    }
  }
}

}  // namespace

Image flip_horizontal(const Image& image) {
  Image result = image;
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* row = result.row(y);
    for (int64_t a = 0, b = image.width - 1; a < b; ++a, --b) {
      std::swap_ranges(row + a * image.channels, row + (a + 1) * image.channels,
                       row + b * image.channels);
    }
  }
  return result;
}

Image adjust_brightness(const Image& image, double factor) {
  return map_values(image, [&](int v) { return blend_value(0, v, static_cast<float>(factor)); });
}

Image adjust_contrast(const Image& image, double factor) {
  const Image grey = to_channels(image, 1);
  double sum = 0;
  for (uint8_t value : grey.pixels) sum += value;
  const int mean = static_cast<int>(sum / static_cast<double>(grey.pixels.size()) + 0.5);
  return map_values(image, [&](int v) { return blend_value(mean, v, static_cast<float>(factor)); });
}

Image adjust_color(const Image& image, double factor) {
  if (image.channels == 1) return image;
  return blend(to_channels(to_channels(image, 1), 3), image, factor);
}

Image adjust_sharpness(const Image& image, double factor) {
  return blend(smooth(image), image, factor);
}

Image auto_contrast(const Image& image) {
  std::vector<Table> tables;
  for (const auto& counts : histograms(image)) tables.push_back(stretching_table(counts));
  return look_up(image, tables);
}

Image equalize(const Image& image) {
  std::vector<Table> tables;
  for (const auto& counts : histograms(image)) tables.push_back(equalizing_table(counts));
  return look_up(image, tables);
}

Image invert(const Image& image) {
  return map_values(image, [](int v) { return 255 - v; });
}

Image posterize(const Image& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  return map_values(image, [&](int v) { return v & mask; });
}

Image solarize(const Image& image, int threshold) {
  return map_values(image, [&](int v) { return v < threshold ? v : 255 - v; });
}

Image solarize_add(const Image& image, int addend) {
  return map_values(image, [&](int v) { return v < 128 ? std::min(255, v + addend) : v; });
}

Image affine(const Image& image, const std::array<double, 6>& m, Filter filter,
             const std::vector<uint8_t>& fill) {
  Image result(image.width, image.height, image.channels);
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* to = result.row(y);
    for (int64_t x = 0; x < image.width; ++x, to += image.channels) {
      const double cx = static_cast<double>(x) + 0.5, cy = static_cast<double>(y) + 0.5;
      const double sx = m[0] * cx + m[1] * cy + m[2];
      const double sy = m[3] * cx + m[4] * cy + m[5];
      const bool inside = sx >= 0 && sy >= 0 && sx < static_cast<double>(image.width) &&
                          sy < static_cast<double>(image.height);
      if (!inside) {
        std::copy(fill.begin(), fill.begin() + image.channels, to);
      } else if (filter == Filter::kBilinear) {
        sample<2>(image, sx, sy, to);
      } else {
        sample<4>(image, sx, sy, to);
      }
    }
  }
  return result;
}

Image rotate(const Image& image, double degrees, Filter filter, const std::vector<uint8_t>& fill) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(image.width) / 2;
  const double y = static_cast<double>(image.height) / 2;
  return affine(image,
                {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y},
                filter, fill);
}

namespace {

constexpr uint64_t kNoiseStream = 0x6e6f697365;  // "noise"
constexpr uint64_t kPlaceStream = 0x706c616365;  // "place"
constexpr uint8_t kGrey = 128;

uint8_t to_byte(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

Image add_noise(Image image, double deviation, uint64_t seed, int64_t index) {
  Random random(seed, kNoiseStream, static_cast<uint64_t>(index));
  for (uint8_t& value : image.pixels) value = to_byte(value + 255 * deviation * random.normal());
  return image;
}

std::vector<double> gaussian(double deviation) {
  const auto reach = static_cast<int64_t>(std::ceil(4 * deviation));
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = -reach; i <= reach; ++i) {
    weights.push_back(std::exp(-0.5 * double(i * i) / (deviation * deviation)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Mirrors an index at the border and repeats the border pixel, which keeps the picture's mean.
int64_t mirrored(int64_t i, int64_t n) {
  const int64_t period = 2 * n;
  const int64_t at = ((i % period) + period) % period;
  return at < n ? at : period - 1 - at;
}

// Blurs one line of `count` values that are `stride` apart.
void blur_line(const double* from, double* to, int64_t count, int64_t stride,
               const std::vector<double>& weights) {
  const auto reach = static_cast<int64_t>(weights.size() / 2);
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t k = -reach; k <= reach; ++k) {
      sum += weights[static_cast<size_t>(k + reach)] * from[mirrored(i + k, count) * stride];
    }
    to[i * stride] = sum;
  }
}

Image blur(Image image, double deviation) {
  const double pixels = deviation * double(std::min(image.width, image.height));
  const std::vector<double> weights = gaussian(pixels);
  const std::vector<double> values(image.pixels.begin(), image.pixels.end());
  std::vector<double> rows(values.size()), both(values.size());
  const int64_t c = image.channels, line = image.width * c;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t k = 0; k < c; ++k) {
      const int64_t start = y * line + k;
      blur_line(values.data() + start, rows.data() + start, image.width, c, weights);
    }
  }
  for (int64_t x = 0; x < line; ++x) {
    blur_line(rows.data() + x, both.data() + x, image.height, line, weights);
  }
  std::transform(both.begin(), both.end(), image.pixels.begin(), to_byte);
  return image;
}

Image occlude(Image image, double share, uint64_t seed, int64_t index) {
  Random random(seed, kPlaceStream, static_cast<uint64_t>(index));
  const int64_t shorter = std::min(image.width, image.height);
  const auto side = std::max<int64_t>(1, std::lround(share * double(shorter)));
  const auto left = static_cast<int64_t>(random.uniform() * double(image.width - side + 1));
  const auto top = static_cast<int64_t>(random.uniform() * double(image.height - side + 1));
  for (int64_t y = top; y < top + side; ++y) {
    std::fill_n(image.row(y) + left * image.channels, side * image.channels, kGrey);
  }
  return image;
}

}  // namespace

const std::vector<std::string>& corruption_kinds() {
  static const std::vector<std::string> kinds{"noise", "blur", "occlusion", "contrast"};
  return kinds;
}

void check_corruption(const Corruption& corruption) {
  const auto& kinds = corruption_kinds();
  if (std::find(kinds.begin(), kinds.end(), corruption.kind) == kinds.end()) {
    fail_usage("There is no corruption '", corruption.kind, "'; the kinds are ", join(kinds, ", "),
               ".", did_you_mean(corruption.kind, kinds));
  }
  if (corruption.strength < 1 || corruption.strength > kCorruptionStrengths) {
    fail_usage("The strength of a corruption is 1 to ", kCorruptionStrengths, ", not ",
               corruption.strength, ".");
  }
}

Image corrupt(const Image& image, const Corruption& corruption, uint64_t seed, int64_t index) {
  if (!corruption.active()) return image;
  check_corruption(corruption);
  if (image.pixels.empty()) return image;
  const auto level = static_cast<size_t>(corruption.strength - 1);
  if (corruption.kind == "noise") return add_noise(image, kNoiseDeviation[level], seed, index);
  if (corruption.kind == "blur") return blur(image, kBlurDeviation[level]);
  if (corruption.kind == "occlusion") return occlude(image, kOcclusionSide[level], seed, index);
  return adjust_contrast(image, kContrastLeft[level]);
}

}  // namespace tost
