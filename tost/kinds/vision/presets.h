// Named image classifiers: every name the official code registers, one that its README trains
// without registering it, small ones for small images, and the linear baseline.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/config.h"

namespace tost {

// {tost,xcit,vit}_cab_{tiny,small}_{12,24}_p{16,8}, {..}_cab_{medium,large}_24_p{16,8},
// tost_cab_medium_12_p16, {..}_{nano,micro}_p{4,2}, linear.
std::vector<std::string> vision_preset_names();

// The preset of this name. Throws a usage Error, with the nearest name, for an unknown one.
VisionConfig vision_preset(const std::string& name);

}  // namespace tost
