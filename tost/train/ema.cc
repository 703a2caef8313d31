#include "tost/train/ema.h"

#include "tost/base/error.h"

namespace tost {

using torch::Tensor;

Ema::Ema(const std::map<std::string, Tensor>& values, double decay) : decay_(decay) {
  for (const auto& [name, value] : values) average_[name] = value.detach().clone();
}

void Ema::update(const std::map<std::string, Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, average] : average_) {
    const Tensor& value = values.at(name);
    if (average.is_floating_point()) {
      average.lerp_(value, 1 - decay_);
    } else {
      average.copy_(value);
    }
  }
}

void Ema::load(const std::map<std::string, Tensor>& average) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, into] : average_) {
    const auto found = average.find(name);
    if (found == average.end()) fail_data("The averaged weights lack tensor '", name, "'.");
    if (found->second.sizes() != into.sizes()) {
      fail_data("Tensor '", name, "' of the averaged weights is ", found->second.sizes(),
                " but the model needs ", into.sizes(), ".");
    }
    into.copy_(found->second);
  }
}

}  // namespace tost
