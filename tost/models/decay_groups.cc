#include "tost/models/decay_groups.h"

#include "tost/base/text.h"

namespace tost {

DecayGroups vision_decay_groups(const torch::nn::Module& model) {
  DecayGroups groups;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool exempt =
        item.value().dim() <= 1 || ends_with(item.key(), ".bias") || item.key() == "cls_token";
    auto& group = exempt ? groups.exempt : groups.decayed;
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  return groups;
}

}  // namespace tost
