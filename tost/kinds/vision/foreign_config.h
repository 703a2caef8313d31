// The architecture of image classifiers that others have saved (store/foreign_model.h). Free of
// torch.
#pragma once

#include "tost/kinds/vision/config.h"
#include "tost/store/foreign_model.h"

namespace tost {

// Heads come from the weights where these show them, else from the presets of the name that the
// facts give, whatever its size; sides and normalisation from the facts, else 224 and on. To be
// checked by validate(). Throws a data Error that says what the file does not tell.
VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts);

}  // namespace tost
