// The presets of all kinds of model by name.
#pragma once

#include <string>
#include <vector>

namespace tost {

class PresetNames {
 public:
  // Adds the names of presets before main(), as a static object next to the presets of a kind.
  explicit PresetNames(const std::vector<std::string>& names) {
    list().insert(list().end(), names.begin(), names.end());
  }
  // All names, in the order in which they were added.
  static const std::vector<std::string>& all() { return list(); }

 private:
  static std::vector<std::string>& list() {
    static std::vector<std::string> names;
    return names;
  }
};

}  // namespace tost
