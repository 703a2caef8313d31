// Mixup and cutmix of a whole batch with soft targets (timm's Mixup in batch mode). Free of torch.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/base/random.h"

namespace tost {

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

// Mixes picture i with picture B-1-i in place and returns the weight of each picture's own label:
// the mixup coefficient, or for cutmix the share of the area that is kept. 1: nothing was mixed.
// images: [B, C, H, W].
double mix_batch(const MixConfig& config, Random& random, const BatchShape& shape, float* images);

// targets [B, classes]: own_weight on label i, the rest on label B-1-i, after smoothing each
// one-hot row to 1 - s + s/K and s/K. Every row sums to 1.
void soft_targets(const std::vector<int64_t>& labels, int64_t classes, double own_weight,
                  double smoothing, float* targets);

}  // namespace tost
