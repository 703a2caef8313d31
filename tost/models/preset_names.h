// The presets of all kinds of model by name.
#pragma once

#include <string>
#include <vector>

namespace tost {

std::vector<std::string> all_preset_names();

}  // namespace tost
