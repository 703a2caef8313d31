// RandAugment with timm's "increasing" operations and magnitude scales. Free of torch.
#pragma once

#include <string>
#include <vector>

#include "tost/base/random.h"
#include "tost/data/augment.h"

namespace tost {

struct OpContext {
  std::vector<uint8_t> fill;              // for pixels from outside, one value a channel
  std::string interpolation = "bicubic";  // or bilinear, or random
};

// The 15 operations, in timm's order.
const std::vector<std::string>& rand_augment_ops();

// One operation at a level of 0..10; random chooses signs and, if asked, the interpolation.
// A usage Error for an unknown name.
Image apply_rand_augment_op(const std::string& op, double level, const Image& image,
                            const OpContext& context, Random& random);

Image rand_augment(const Image& image, const RandAugmentConfig& config, const OpContext& context,
                   Random& random);

}  // namespace tost
