// Mixup and cutmix of a batch, and its soft targets.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/data/augment.h"

namespace tost {
namespace {

struct Rectangle {
  int64_t top, bottom, left, right;
};

// A rectangle with the share 1 - keep of the area around a random centre, clipped at the border.
Rectangle random_rectangle(double keep, int64_t height, int64_t width, Random& random) {
  const double share = std::sqrt(1 - keep);
  const auto cut_height = static_cast<int64_t>(static_cast<double>(height) * share);
  const auto cut_width = static_cast<int64_t>(static_cast<double>(width) * share);
  const int64_t y = random.below(height);
  const int64_t x = random.below(width);
  return {std::clamp<int64_t>(y - cut_height / 2, 0, height),
          std::clamp<int64_t>(y + cut_height / 2, 0, height),
          std::clamp<int64_t>(x - cut_width / 2, 0, width),
          std::clamp<int64_t>(x + cut_width / 2, 0, width)};
}

void blend(float* a, float* b, int64_t count, float keep) {
  for (int64_t i = 0; i < count; ++i) {
    const float first = a[i];
    const float other = b[i];
    a[i] = first * keep + other * (1 - keep);
    b[i] = other * keep + first * (1 - keep);
  }
}

void exchange(const Rectangle& cut, const BatchShape& shape, float* a, float* b) {
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = cut.top; y < cut.bottom; ++y) {
      const int64_t row = (c * shape.height + y) * shape.width;
      std::swap_ranges(a + row + cut.left, a + row + cut.right, b + row + cut.left);
    }
  }
}

bool is_share(double value) {
  return value >= 0 && value <= 1;
}

}  // namespace

void check_mix(const MixConfig& config) {
  if (!(config.mixup >= 0) || !(config.cutmix >= 0)) {
    fail_usage("Mixup and cutmix are Beta parameters of 0 (off) or more, not ", config.mixup,
               " and ", config.cutmix, ".");
  }
  if (!is_share(config.probability) || !is_share(config.switch_to_cutmix)) {
    fail_usage("The probabilities of mixing (", config.probability, ") and of cutmix (",
               config.switch_to_cutmix, ") lie between 0 and 1.");
  }
  if (!(config.label_smoothing >= 0) || config.label_smoothing >= 1) {
    fail_usage("Label smoothing lies between 0 and 1 (excluded), not ", config.label_smoothing,
               ".");
  }
}

double mix_batch(const MixConfig& config, Random& random, const BatchShape& shape, float* images) {
  const bool mixing = config.mixup > 0 || config.cutmix > 0;
  if (!mixing || !random.chance(config.probability)) return 1;
  const bool cut =
      config.cutmix > 0 && (config.mixup <= 0 || random.chance(config.switch_to_cutmix));
  const double alpha = cut ? config.cutmix : config.mixup;
  double keep = random.beta(alpha, alpha);
  const int64_t image_size = shape.channels * shape.height * shape.width;
  Rectangle rectangle{};
  if (cut) {
    rectangle = random_rectangle(keep, shape.height, shape.width, random);
    // Uses the true area of the rectangle, because the border may clip it.
    keep = 1 - static_cast<double>((rectangle.bottom - rectangle.top) *
                                   (rectangle.right - rectangle.left)) /
                   static_cast<double>(shape.height * shape.width);
  }
  for (int64_t i = 0; i < shape.images / 2; ++i) {
    float* a = images + i * image_size;
    float* b = images + (shape.images - 1 - i) * image_size;
    if (cut) {
      exchange(rectangle, shape, a, b);
    } else {
      blend(a, b, image_size, static_cast<float>(keep));
    }
  }
  return keep;
}

void soft_targets(const std::vector<int64_t>& labels, int64_t classes, double label_weight,
                  double smoothing, float* targets) {
  const auto batch = static_cast<int64_t>(labels.size());
  const double low = smoothing / static_cast<double>(classes);
  std::fill(targets, targets + batch * classes, static_cast<float>(low));
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t label = labels[static_cast<size_t>(i)];
    const int64_t other = labels[static_cast<size_t>(batch - 1 - i)];
    float* row = targets + i * classes;
    row[label] += static_cast<float>((1 - smoothing) * label_weight);
    row[other] += static_cast<float>((1 - smoothing) * (1 - label_weight));
  }
}

}  // namespace tost
