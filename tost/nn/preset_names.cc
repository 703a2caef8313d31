#include "tost/nn/preset_names.h"

namespace tost {
namespace {

std::vector<std::string>& all_names() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  return all_names();
}

PresetNames::PresetNames(const std::vector<std::string>& names) {
  all_names().insert(all_names().end(), names.begin(), names.end());
}

}  // namespace tost
