#include "tost/data/rand_augment.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/data/image_ops.h"

namespace tost {
namespace {

constexpr double kMaxLevel = 10;
constexpr double kTranslateShare = 0.45;  // of the side, at the highest level

// What an operation gets: the level as a share of the highest, and how to choose.
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

double extent(int64_t pixels) {
  return static_cast<double>(pixels);
}

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
       return c.warp({1, 0, c.signed_share(kTranslateShare) * extent(c.image.width), 0, 1, 0});
     }},
    {"TranslateYRel",
     [](const Call& c) {
       return c.warp({1, 0, 0, 0, 1, c.signed_share(kTranslateShare) * extent(c.image.height)});
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
