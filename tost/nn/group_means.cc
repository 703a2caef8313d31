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

Tensor GroupMeans::forward(const MeansCall& call, Tensor* sums) const {
  return has_fused_means(call) ? group_means(call, scale, sums) : chunked(call, sums);
}

Tensor GroupMeans::chunked(const MeansCall& call, Tensor* sums) const {
  const auto& values = call.values;
  const int64_t batch = values.size(0), tokens = values.size(1), heads = call.pi.size(2);
  const int64_t width = values.size(2) / heads;
  const auto dtype = values.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const auto share = call.pi.to(dtype).unsqueeze(3);  // [B, T, H, 1]
  const auto split = values.to(dtype).reshape({batch, tokens, heads, width});
  const auto all =
      running_sums(torch::cat({split * share, share.square()}, 3), call.log_rates, sums);
  const auto spread = (all.narrow(3, width, 1) + 1e-6).rsqrt();
  const auto means = (all.narrow(3, 0, width) * spread).reshape(values.sizes());
  const auto y = call.base + (means * scale).to(values.scalar_type());
  return call.gate.defined() ? y * torch::silu(call.gate) : y;
}

}  // namespace tost
