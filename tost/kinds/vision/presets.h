// Named image classifiers: all that the official code registers, one that only its README has,
// small ones for small images, and the linear baseline.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/config.h"

namespace tost {

// The names {tost,xcit,vit}_cab_{tiny,small}_{12,24}_p{16,8}, {..}_cab_{medium,large}_24_p{16,8},
// tost_cab_medium_12_p16, {..}_{nano,micro}_p{4,2} and linear.
std::vector<std::string> vision_preset_names();

// The preset with this name. Throws a usage Error, with the nearest name, for an unknown name.
VisionConfig vision_preset(const std::string& name);

}  // namespace tost
