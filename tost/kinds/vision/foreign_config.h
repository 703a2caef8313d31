// Finds the architecture of image classifiers of other programs (store/foreign_model.h). Free of
// torch.
#pragma once

#include "tost/kinds/vision/config.h"
#include "tost/store/foreign_model.h"

namespace tost {

// Takes heads from the weights if these show them, else from the preset that the facts name. Takes
// side and normalisation from the facts, else 224 and normalised. The caller calls validate().
// Throws a data Error that names what the file does not contain.
VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts);

}  // namespace tost
