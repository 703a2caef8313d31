#include "tost/data/augment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/image_ops.h"

namespace tost {
namespace {

constexpr int kAttempts = 10;  // for a rectangle that fits, in crops and erasing

double side(int64_t pixels) {
  return static_cast<double>(pixels);
}

// Draws a part of the configured area and aspect ratio. If no part fits in ten attempts, returns
// the largest central part with an aspect ratio in range.
Box random_part(int64_t image_width, int64_t image_height, const AugmentConfig& config,
                Random& random) {
  const double area = side(image_width) * side(image_height);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double target = area * random.uniform(config.min_scale, config.max_scale);
    const double ratio =
        std::exp(random.uniform(std::log(config.min_ratio), std::log(config.max_ratio)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (width < 1 || height < 1 || width > image_width || height > image_height) continue;
    const int64_t y = random.below(image_height - height + 1);
    const int64_t x = random.below(image_width - width + 1);
    return {x, y, width, height};
  }
  int64_t width = image_width;
  int64_t height = image_height;
  const double ratio = side(width) / side(height);
  if (ratio < config.min_ratio) {
    height = std::max<int64_t>(1, std::lround(side(width) / config.min_ratio));
  } else if (ratio > config.max_ratio) {
    width = std::max<int64_t>(1, std::lround(side(height) * config.max_ratio));
  }
  return {(image_width - width) / 2, (image_height - height) / 2, width, height};
}

// Shifts a picture by up to `pad` pixels, with black borders.
Image shift_randomly(const Image& image, int64_t pad, Random& random) {
  const int64_t dy = random.below(2 * pad + 1) - pad;
  const int64_t dx = random.below(2 * pad + 1) - pad;
  Image result(image.width, image.height, image.channels);
  const int64_t first = std::max<int64_t>(0, -dx);
  const int64_t last = std::min(image.width, image.width - dx);
  if (first >= last) return result;
  for (int64_t y = std::max<int64_t>(0, -dy); y < std::min(image.height, image.height - dy); ++y) {
    const uint8_t* from = image.row(y + dy);
    std::copy(from + (first + dx) * image.channels, from + (last + dx) * image.channels,
              result.row(y) + first * image.channels);
  }
  return result;
}

Image color_jitter(Image image, double strength, Random& random) {
  int order[] = {0, 1, 2};
  shuffle(order, 3, random);
  for (int kind : order) {
    const double factor = random.uniform(std::max(0.0, 1 - strength), 1 + strength);
    image = kind == 0   ? adjust_brightness(image, factor)
            : kind == 1 ? adjust_contrast(image, factor)
                        : adjust_color(image, factor);
  }
  return image;
}

// Random erasing: replaces a rectangle by normal noise for each pixel and channel.
void erase(int64_t channels, int64_t size, Random& random, float* to) {
  const double area = side(size) * side(size);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double target = random.uniform(0.02, 1.0 / 3.0) * area;
    const double ratio = std::exp(random.uniform(std::log(0.3), std::log(1 / 0.3)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (width >= size || height >= size) continue;
    const int64_t top = random.below(size - height + 1);
    const int64_t left = random.below(size - width + 1);
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = top; y < top + height; ++y) {
        float* row = to + (c * size + y) * size;
        for (int64_t x = left; x < left + width; ++x) row[x] = static_cast<float>(random.normal());
      }
    }
    return;
  }
}

bool in_unit(double value) {
  return value >= 0 && value <= 1;
}

// The colour by which timm fills borders: the mean of the normalisation.
std::vector<uint8_t> fill_color(const Preprocess& p) {
  std::vector<uint8_t> fill(static_cast<size_t>(p.channels), 0);
  for (size_t c = 0; c < p.mean.size(); ++c) {
    fill[c] = static_cast<uint8_t>(std::clamp(std::nearbyint(255 * p.mean[c]), 0.0, 255.0));
  }
  return fill;
}

// The interpolation filter with a name; a random one for "random".
Filter random_filter(const std::string& name, Random& random) {
  if (name != "random") return filter_from_name(name);
  return random.chance(0.5) ? Filter::kBilinear : Filter::kBicubic;
}

}  // namespace

void check_augment(const AugmentConfig& c) {
  if (c.crop != "none" && c.crop != "pad" && c.crop != "random") {
    fail_usage("Unknown training crop '", c.crop, "'; use none, pad or random.",
               did_you_mean(c.crop, {"none", "pad", "random"}));
  }
  if (c.pad < 0 || c.pad > 1024)
    fail_usage("The crop padding is 0 to 1024 pixels, not ", c.pad, ".");
  if (!(c.min_scale > 0) || c.min_scale > c.max_scale || c.max_scale > 1) {
    fail_usage("Random crops need 0 < min scale <= max scale <= 1, not ", c.min_scale, " and ",
               c.max_scale, ".");
  }
  if (!(c.min_ratio > 0) || !(c.min_ratio <= c.max_ratio) || !std::isfinite(c.max_ratio)) {
    fail_usage("Random crops need 0 < min ratio <= max ratio, not ", c.min_ratio, " and ",
               c.max_ratio, ".");
  }
  if (c.interpolation != "random") filter_from_name(c.interpolation);
  if (!in_unit(c.flip) || !in_unit(c.erase)) {
    fail_usage("The probabilities of flipping (", c.flip, ") and erasing (", c.erase,
               ") lie between 0 and 1.");
  }
  const RandAugmentConfig& r = c.rand_augment;
  if (r.layers < 0 || r.layers > 16 || !(r.magnitude >= 0) || !std::isfinite(r.magnitude) ||
      !(r.noise >= 0) || !std::isfinite(r.noise)) {
    fail_usage("RandAugment needs 0 to 16 layers, a magnitude and a noise of at least 0, not ",
               r.layers, ", ", r.magnitude, " and ", r.noise, ".");
  }
  if (!(c.color_jitter >= 0) || !std::isfinite(c.color_jitter)) {
    fail_usage("Colour jitter must be at least 0, not ", c.color_jitter, ".");
  }
}

Augmenter::Augmenter(const Preprocess& preprocess, const AugmentConfig& config)
    : preprocess_(preprocess), config_(config), normalize_(preprocess) {}

Image Augmenter::change_look(Image image, Random& random) const {
  if (config_.flip > 0 && random.chance(config_.flip)) image = flip_horizontal(image);
  if (config_.rand_augment.layers > 0) {
    const OpContext context{fill_color(preprocess_), config_.interpolation};
    image = rand_augment(image, config_.rand_augment, context, random);
  } else if (config_.color_jitter > 0) {
    image = color_jitter(std::move(image), config_.color_jitter, random);
  }
  return image;
}

Image Augmenter::augment(const Image& original, Random& random) const {
  if (config_.crop == "random") {
    const Box part = random_part(original.width, original.height, config_, random);
    const Filter filter = random_filter(config_.interpolation, random);
    const Image image = to_channels(original, preprocess_.channels);
    return change_look(resize(image, part, preprocess_.size, preprocess_.size, filter), random);
  }
  Image image = fit_image(original, preprocess_);
  if (config_.crop == "pad" && config_.pad > 0) image = shift_randomly(image, config_.pad, random);
  return change_look(std::move(image), random);
}

void Augmenter::finish(const Image& image, Random& random, float* to) const {
  normalize_(image, to);
  if (config_.erase > 0 && random.chance(config_.erase)) {
    erase(preprocess_.channels, preprocess_.size, random, to);
  }
}

void Augmenter::operator()(const Image& image, Random& random, float* to) const {
  finish(augment(image, random), random, to);
}

namespace {

constexpr double kMaxLevel = 10;
constexpr double kTranslateShare = 0.45;  // of the side, at the highest level

// The arguments of an operation: its level as a share of the highest level, and random choices.
struct Call {
  const Image& image;
  double share;
  const OpContext& context;
  Random& random;

  double signed_share(double scale) const {
    return random.chance(0.5) ? -share * scale : share * scale;
  }
  double factor() const { return 1 + signed_share(0.9); }
  Filter filter() const { return random_filter(context.interpolation, random); }
  Image warp(std::array<double, 6> m) const { return affine(image, m, filter(), context.fill); }
};

using Op = Image (*)(const Call&);

struct NamedOp {
  const char* name;
  Op apply;
};

const NamedOp kOps[] = {
    {"AutoContrast", [](const Call& c) { return auto_contrast(c.image); }},
    {"Equalize", [](const Call& c) { return equalize(c.image); }},
    {"Invert", [](const Call& c) { return invert(c.image); }},
    {"Rotate",
     [](const Call& c) {
       const double degrees = c.signed_share(30);
       return rotate(c.image, degrees, c.filter(), c.context.fill);
     }},
    {"PosterizeIncreasing",
     [](const Call& c) { return posterize(c.image, 4 - static_cast<int>(c.share * 4)); }},
    {"SolarizeIncreasing",
     [](const Call& c) { return solarize(c.image, 256 - static_cast<int>(c.share * 256)); }},
    {"SolarizeAdd",
     [](const Call& c) { return solarize_add(c.image, static_cast<int>(c.share * 110)); }},
    {"ColorIncreasing", [](const Call& c) { return adjust_color(c.image, c.factor()); }},
    {"ContrastIncreasing", [](const Call& c) { return adjust_contrast(c.image, c.factor()); }},
    {"BrightnessIncreasing", [](const Call& c) { return adjust_brightness(c.image, c.factor()); }},
    {"SharpnessIncreasing", [](const Call& c) { return adjust_sharpness(c.image, c.factor()); }},
    {"ShearX",
     [](const Call& c) {
       return c.warp({1, c.signed_share(0.3), 0, 0, 1, 0});
     }},
    {"ShearY",
     [](const Call& c) {
       return c.warp({1, 0, 0, c.signed_share(0.3), 1, 0});
     }},
    {"TranslateXRel",
     [](const Call& c) {
       return c.warp({1, 0, c.signed_share(kTranslateShare) * side(c.image.width), 0, 1, 0});
     }},
    {"TranslateYRel",
     [](const Call& c) {
       return c.warp({1, 0, 0, 0, 1, c.signed_share(kTranslateShare) * side(c.image.height)});
     }},
};

}  // namespace

const std::vector<std::string>& rand_augment_ops() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const NamedOp& op : kOps) list.push_back(op.name);
    return list;
  }();
  return names;
}

Image apply_rand_augment_op(const std::string& op, double level, const Image& image,
                            const OpContext& context, Random& random) {
  for (const NamedOp& known : kOps) {
    if (op == known.name) return known.apply({image, level / kMaxLevel, context, random});
  }
  fail_usage("Unknown RandAugment operation '", op, "'.");
}

Image rand_augment(const Image& image, const RandAugmentConfig& config, const OpContext& context,
                   Random& random) {
  Image result = image;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const NamedOp& op = kOps[random.below(std::size(kOps))];
    if (!random.chance(0.5)) continue;
    const double level =
        std::clamp(config.magnitude + config.noise * random.normal(), 0.0, kMaxLevel);
    result = op.apply({result, level / kMaxLevel, context, random});
  }
  return result;
}

}  // namespace tost
