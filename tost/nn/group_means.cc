#include "tost/nn/group_means.h"

#include <cmath>

#include "tost/nn/running_sums.h"

namespace tost {

using torch::Tensor;

ForgettingRates::ForgettingRates(int64_t heads, const std::string& kind) {
  if (kind == "none") return;
  const auto horizon = torch::linspace(1, 8, heads).mul(std::log(2.0)).exp();
  const auto logit = (horizon - 1).log();  // gamma = 1 - 1 / horizon
  decay = kind == "learned" ? register_parameter("decay", logit) : register_buffer("decay", logit);
}

Tensor ForgettingRates::log_rates() const {
  return decay.defined() ? torch::log_sigmoid(decay.to(torch::kFloat)) : Tensor();
}

GroupMeans::GroupMeans(int64_t dim) {
  scale = register_parameter("scale", torch::ones({dim}));
}

Tensor GroupMeans::forward(const Tensor& values, const Tensor& pi, const Tensor& log_rates,
                           Tensor* sums) const {
  const int64_t batch = values.size(0), tokens = values.size(1), heads = pi.size(2);
  const int64_t width = values.size(2) / heads;
  const auto share = pi.to(torch::kFloat).unsqueeze(3);  // [B, T, H, 1]
  const auto split = values.to(torch::kFloat).view({batch, tokens, heads, width});
  const auto all = running_sums(torch::cat({split * share, share.square()}, 3), log_rates, sums);
  const auto spread = (all.narrow(3, width, 1) + 1e-6).rsqrt();
  const auto means = (all.narrow(3, 0, width) * spread).reshape(values.sizes());
  return (means * scale).to(values.scalar_type());
}

}  // namespace tost
