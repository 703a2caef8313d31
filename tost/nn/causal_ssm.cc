#include "tost/nn/causal_ssm.h"

#include "tost/nn/mixer_ssm.h"

namespace tost {

using torch::Tensor;

CausalSsmMixer::CausalSsmMixer(const CausalMixerConfig& config) {
  ssm = register_module("ssm", std::make_shared<StateSpace>(StateSpaceShape{config.dim}));
  c_proj =
      register_module("c_proj", std::make_shared<Linear>(config.dim, 2 * config.dim, config.bias));
  ssm->draw_weights();
  if (config.options.conv > 0) {
    conv = register_module("conv", std::make_shared<CausalConv>(config.dim, config.options.conv));
  }
}

Tensor CausalSsmMixer::forward(const Tensor& x, const CausalCall& call) {
  const auto kept = [&](const char* name) {
    return call.state != nullptr ? &(*call.state)[name] : nullptr;
  };
  const auto u = conv == nullptr ? x : conv->forward(x, kept("conv"));
  return gated_output(ssm->forward(u, kept("ssm")), *c_proj, x.scalar_type());
}

}  // namespace tost
