#include "tost/nn/quantizable.h"

#include "tost/base/text.h"
#include "tost/nn/layers.h"

namespace tost {

std::set<std::string> linear_weight_names(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    if (item.value()->as<Linear>() != nullptr) names.insert(item.key() + ".weight");
  }
  return names;
}

std::set<std::string> token_table_names(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const bool tokens = item.value()->as<Embedding>() != nullptr && ends_with(item.key(), "wte");
    if (tokens) names.insert(item.key() + ".weight");
  }
  return names;
}

}  // namespace tost
