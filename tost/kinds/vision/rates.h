// What each layer of an image classifier does to its objective (layer_rates.h).
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/layer_rates.h"

namespace tost {

// One entry a block, from a trace that the same model has just filled. Without gradients.
std::vector<LayerRates> layer_rates(const ImageClassifier& model, const VisionTrace& trace,
                                    const WantedRates& wanted = {});

// The mixers whose layers have rates, for messages.
std::vector<std::string> vision_mixers_with_rates();

}  // namespace tost
