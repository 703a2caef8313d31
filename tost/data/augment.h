// Augments a picture for training, as in the official recipe (timm 0.4.12 and DeiT), or by
// pad-and-crop, which is usual for small pictures. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/base/random.h"
#include "tost/io/preprocess.h"

namespace tost {

// RandAugment as timm's "rand-m9-mstd0.5-inc1": draws `layers` of 15 operations, and applies each
// with probability 0.5. Magnitudes are from N(magnitude, noise), clipped to 0..10.
struct RandAugmentConfig {
  int64_t layers = 0;  // 0: off; the official recipe uses 2
  double magnitude = 9;
  double noise = 0.5;
};

struct AugmentConfig {
  // "none" crops as in evaluation. "pad" adds `pad` black pixels on each side of the picture for
  // evaluation, and crops a random part of the old size. "random" resizes a part with an area of
  // min_scale..max_scale of the picture and an aspect ratio of min_ratio..max_ratio (log-uniform).
  std::string crop = "pad";
  int64_t pad = 4;
  double min_scale = 0.08;
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;
  double max_ratio = 4.0 / 3.0;
  std::string interpolation = "bicubic";  // of "random": bilinear, bicubic, or random (either)
  double flip = 0.5;                      // probability of a horizontal flip
  RandAugmentConfig rand_augment;
  // Changes brightness, contrast and saturation by factors of 1 - x .. 1 + x, in random order.
  // RandAugment disables colour jitter, as in timm.
  double color_jitter = 0;
  // The probability of replacing a rectangle (2..33 % of the area, aspect 0.3..3.3) by noise.
  double erase = 0;
};

// A usage Error for values out of range.
void check_augment(const AugmentConfig& config);

class Augmenter {
 public:
  Augmenter(const Preprocess& preprocess, const AugmentConfig& config);
  // Writes the network's input [channels, size, size] for a picture, with draws from `random`.
  void operator()(const Image& image, Random& random, float* to) const;

  // Returns the 8-bit picture before normalisation and erasing.
  Image augment(const Image& image, Random& random) const;

 private:
  Image change_look(Image image, Random& random) const;
  void finish(const Image& image, Random& random, float* to) const;

  Preprocess preprocess_;
  AugmentConfig config_;
  Normalizer normalize_;
};

// The fill colour and interpolation of the operations of RandAugment (timm's "increasing" set).
struct OpContext {
  std::vector<uint8_t> fill;              // for pixels from outside, one value a channel
  std::string interpolation = "bicubic";  // or bilinear, or random
};

// The 15 operations, in timm's order.
const std::vector<std::string>& rand_augment_ops();

// Applies an operation at a level of 0..10; `random` draws signs and, if requested, the
// interpolation. Throws a usage Error for an unknown name.
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

// Mixes picture i of images [B, C, H, W] with picture B-1-i, in place. Returns the weight of each
// picture's label: the mixup coefficient, or for cutmix the share of the area that remains; 1 if
// nothing was mixed.
double mix_batch(const MixConfig& config, Random& random, const BatchShape& shape, float* images);

// Writes targets [B, classes]: row i has label_weight times the target of label i, and the rest
// times that of label B-1-i. The target of a label is smoothed to 1 - s + s/K, and s/K for other
// classes. Every row sums to 1.
void soft_targets(const std::vector<int64_t>& labels, int64_t classes, double label_weight,
                  double smoothing, float* targets);

}  // namespace tost
