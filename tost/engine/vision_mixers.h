// Group means and softmax attention of pictures without torch, for an engine that no module helps.
#pragma once

#include "tost/engine/vision_weights.h"

namespace tost {

// Whether an engine has the model's mixer.
bool engine_has(const VisionConfig& config);

// The mixers `means` or `softmax` (nn/causal_means.h, nn/mixer_attention.h) of all blocks; null for
// other mixers. Products are in float32, or in bfloat16 where `products` is narrower and this CPU
// multiplies bfloat16; all else is float32. Throws as WeightSource.
VisionMixer engine_mixers(const VisionConfig& config, WeightSource& source, Packing products);

}  // namespace tost
