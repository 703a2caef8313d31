// The presets of all kinds of model by name.
#pragma once

#include <string>
#include <vector>

namespace tost {

// In the order in which they were added.
const std::vector<std::string>& preset_names();

// Each kind adds its own before main(), next to its table of presets.
struct PresetNames {
  explicit PresetNames(const std::vector<std::string>& names);
};

}  // namespace tost
