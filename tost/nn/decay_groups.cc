#include "tost/nn/decay_groups.h"

#include <algorithm>
#include <array>

#include "tost/base/text.h"

namespace tost {
namespace {

using Exempt = bool (*)(const std::string& name, const torch::Tensor& value);

DecayGroups split(const torch::nn::Module& model, Exempt exempt) {
  DecayGroups groups;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    auto& group = exempt(item.key(), item.value()) ? groups.exempt : groups.decayed;
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  return groups;
}

// Whether a parameter is a rate of a state-space model, which weight decay would pull to a fixed
// value.
bool is_state_rate(const std::string& name) {
  return ends_with(name, "log_a_real") || ends_with(name, "a_imag");
}

}  // namespace

DecayGroups vision_decay_groups(const torch::nn::Module& model) {
  return split(model, [](const std::string& name, const torch::Tensor& value) {
    return value.dim() <= 1 || ends_with(name, ".bias") || ends_with(name, "cls_token") ||
           name == "registers" || is_state_rate(name);
  });
}

DecayGroups sequence_decay_groups(const torch::nn::Module& model) {
  return vision_decay_groups(model);
}

DecayGroups language_decay_groups(const torch::nn::Module& model) {
  return split(model, [](const std::string& name, const torch::Tensor& value) {
    constexpr std::array kParts{"temp", "denom", "conv", "decay"};
    return value.dim() <= 1 || is_state_rate(name) ||
           std::any_of(kParts.begin(), kParts.end(),
                       [&](const char* part) { return name.find(part) != std::string::npos; });
  });
}

}  // namespace tost
