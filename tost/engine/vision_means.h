// Group means of pictures without torch, for an engine that no module helps.
#pragma once

#include "tost/engine/vision_weights.h"

namespace tost {

// The mixers `means` (nn/causal_means.h, MeansMixer) of all blocks. Products are in float32, or in
// bfloat16 where `products` is narrower and this CPU multiplies bfloat16; all else is float32.
// Throws as WeightSource.
VisionMixer means_mixers(const VisionConfig& config, WeightSource& source, Packing products);

}  // namespace tost
