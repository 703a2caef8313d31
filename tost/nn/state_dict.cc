#include "tost/nn/state_dict.h"

#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/layers.h"

namespace tost {

namespace {

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

// The names in `wanted` that are not in `have`.
std::vector<std::string> missing_names(const StateDict& wanted, const StateDict& have) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : wanted) {
    if (have.count(name) == 0) names.push_back(name);
  }
  return names;
}

// Formats names as "'a'" or "'a' and 3 more".
std::string first_of(const std::vector<std::string>& names) {
  return names.size() == 1 ? cat("'", names[0], "'")
                           : cat("'", names[0], "' and ", names.size() - 1, " more");
}

void check_names(const StateDict& model, const StateDict& state) {
  const auto missing = missing_names(model, state);
  if (!missing.empty()) {
    fail_data("The checkpoint lacks ", first_of(missing), " of the model's ", model.size(),
              " tensors.", did_you_mean(missing[0], names_of(state)));
  }
  const auto unexpected = missing_names(state, model);
  if (!unexpected.empty()) {
    fail_data("The checkpoint holds ", first_of(unexpected), ", which the model does not have.",
              did_you_mean(unexpected[0], names_of(model)));
  }
}

void check_tensor(const std::string& name, const torch::Tensor& wanted,
                  const torch::Tensor& found) {
  if (!found.defined()) fail_data("Tensor '", name, "' of the checkpoint is undefined.");
  if (wanted.sizes() != found.sizes()) {
    fail_data("Tensor '", name, "' has shape ", found.sizes(),
              " in the checkpoint, the model needs ", wanted.sizes(), ".");
  }
  if (wanted.is_floating_point() != found.is_floating_point() || found.is_complex()) {
    fail_data("Tensor '", name, "' has type ", found.dtype(),
              " in the checkpoint, the model needs ", wanted.dtype(), ".");
  }
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict state;
  for (const auto& item : module.named_parameters())
    state.emplace(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value().detach());
  return state;
}

void load_state_dict(torch::nn::Module& module, const StateDict& state) {
  auto model = state_dict(module);
  check_names(model, state);
  for (const auto& [name, tensor] : model) check_tensor(name, tensor, state.at(name));
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : model) tensor.copy_(state.at(name));
}

int64_t tensor_bytes(const StateDict& state) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : state) bytes += int64_t(tensor.nbytes());
  return bytes;
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

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
