// The architecture of image classifiers that others have saved (store/foreign_model.h). Free of
// torch.
#pragma once

#include "tost/kinds/vision/config.h"
#include "tost/store/foreign_model.h"

namespace tost {

// Heads come from the weights where these show them, else from the preset that the facts name, of
// any size. Sides and normalisation come from the facts, else they are 224 and on. To be checked by
// validate(). Throws a data Error that names what the file does not contain.
VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts);

}  // namespace tost
