// The presets of all kinds of model by name.
#pragma once

#include <string>
#include <vector>

namespace tost {

class PresetNames {
 public:
  // A static object of this type, next to the presets of a kind, adds the names before main().
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
