#include "tost/models/preset_names.h"

#include "tost/models/language_model.h"
#include "tost/models/sequence_classifier.h"
#include "tost/models/vision_presets.h"

namespace tost {

std::vector<std::string> all_preset_names() {
  std::vector<std::string> names = vision_preset_names();
  for (const auto& more :
       {language_preset_names(), recall_preset_names(), sequence_preset_names()}) {
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

}  // namespace tost
