#include "tost/data/corrupt.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/data/image_ops.h"

namespace tost {
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
