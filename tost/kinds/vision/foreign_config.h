// Finds the architecture of image classifiers of other programs (store/foreign_model.h). Free of
// torch.
#pragma once

#include "tost/kinds/vision/config.h"
#include "tost/store/foreign_model.h"

namespace tost {

// Takes heads from the weights, else from the preset that the facts name. Takes side and
// normalisation from the facts; by default side 224, normalised. The caller calls validate().
// Throws a data Error that names missing facts.
VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts);

}  // namespace tost
