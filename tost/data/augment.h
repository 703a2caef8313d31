// Training augmentation of one picture, as in the official recipe (timm 0.4.12 and DeiT), plus
// pad-and-crop, which is usual for small pictures. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/base/random.h"
#include "tost/data/preprocess.h"

namespace tost {

// timm's "rand-m9-mstd0.5-inc1": each of `layers` operations is drawn from 15 and applied with
// probability 0.5 at a magnitude from N(magnitude, noise), clipped to 0..10.
struct RandAugmentConfig {
  int64_t layers = 0;  // 0: off; the official recipe uses 2
  double magnitude = 9;
  double noise = 0.5;
};

struct AugmentConfig {
  // "none": as in evaluation. "pad": evaluation's picture, padded with `pad` black pixels a side
  // and cropped back at a random place. "random": a part with an area of min_scale..max_scale of
  // the picture and an aspect ratio of min_ratio..max_ratio (log-uniform), resized to the input
  // size.
  std::string crop = "pad";
  int64_t pad = 4;
  double min_scale = 0.08;
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;
  double max_ratio = 4.0 / 3.0;
  std::string interpolation = "bicubic";  // of "random": bilinear, bicubic, or random (either)
  double flip = 0.5;                      // probability of a horizontal flip
  RandAugmentConfig rand_augment;
  // Brightness, contrast and saturation, each by a factor of 1 - x .. 1 + x, in random order.
  // Superseded by RandAugment where that is on, as in timm.
  double color_jitter = 0;
  // Probability of replacing a rectangle (2..33 % of the area, aspect 0.3..3.3) by normal noise.
  double erase = 0;
};

// A usage Error for values out of range.
void check_augment(const AugmentConfig& config);

class Augmenter {
 public:
  Augmenter(const Preprocess& preprocess, const AugmentConfig& config);
  // Writes [channels, size, size]. A pure function of the picture and the state of `random`.
  void operator()(const Image& image, Random& random, float* to) const;

  // The geometric and colour part only: the 8-bit picture before normalisation and erasing.
  Image augment(const Image& image, Random& random) const;

 private:
  Image change_look(Image image, Random& random) const;
  void finish(const Image& image, Random& random, float* to) const;

  Preprocess preprocess_;
  AugmentConfig config_;
  Normalizer normalize_;
};

// How operations of RandAugment (timm's "increasing" ones, with its magnitudes) fill and resample.
struct OpContext {
  std::vector<uint8_t> fill;              // for pixels from outside, one value a channel
  std::string interpolation = "bicubic";  // or bilinear, or random
};

// The 15 operations, in timm's order.
const std::vector<std::string>& rand_augment_ops();

// One operation at a level of 0..10; random chooses signs and, for `random`, the interpolation.
// A usage Error for an unknown name.
Image apply_rand_augment_op(const std::string& op, double level, const Image& image,
                            const OpContext& context, Random& random);

Image rand_augment(const Image& image, const RandAugmentConfig& config, const OpContext& context,
                   Random& random);

// ---- Mixes of a batch. ----

struct MixConfig {
  double mixup = 0;               // alpha of Beta(alpha, alpha); 0: off. Official: 0.8
  double cutmix = 0;              // the same for cutmix. Official: 1.0
  double probability = 1;         // share of batches that are mixed at all
  double switch_to_cutmix = 0.5;  // where both are on: share of mixed batches that use cutmix
  double label_smoothing = 0;     // official: 0.1
  bool active() const { return mixup > 0 || cutmix > 0 || label_smoothing > 0; }
};

// A usage Error for values out of range.
void check_mix(const MixConfig& config);

struct BatchShape {
  int64_t images, channels, height, width;
};

// Mixes picture i with picture B-1-i in place and returns the weight of each picture's label: the
// mixup coefficient, or for cutmix the share of the area that remains. 1: nothing was mixed.
// images: [B, C, H, W].
double mix_batch(const MixConfig& config, Random& random, const BatchShape& shape, float* images);

// targets [B, classes]: label_weight on label i, the rest on label B-1-i, after smoothing each
// one-hot row to 1 - s + s/K and s/K. Every row sums to 1.
void soft_targets(const std::vector<int64_t>& labels, int64_t classes, double label_weight,
                  double smoothing, float* targets);

}  // namespace tost
