#include "tost/nn/mixer_ssm.h"

namespace tost {

using torch::Tensor;

SsmMixer::SsmMixer(const MixerConfig& config) {
  ssm = register_module("ssm", std::make_shared<StateSpace>(shape(config.dim)));
  out = register_module("out", std::make_shared<Linear>(config.dim, 2 * config.dim, true));
}

Tensor SsmMixer::forward(const Tensor& x, const MixerCall& call) {
  auto tokens = x;
  if (call.lengths.defined()) {
    // Zeros leave both directions as if the sequence ended where it does.
    const auto padding =
        torch::arange(x.size(1), call.lengths.options()) >= call.lengths.unsqueeze(1);  // [B, N]
    tokens = x.masked_fill(padding.unsqueeze(2), 0);
  }
  return gated_output(ssm->forward(tokens), *out, x.scalar_type());
}

Tensor gated_output(Tensor y, const Linear& out, torch::ScalarType dtype) {
  const int64_t channels = y.size(0), batch = y.size(1), tokens = y.size(2);
  // The product reads its rows as columns of the memory they lie in: nothing is turned around.
  const auto rows = torch::gelu(y).to(dtype).reshape({channels, batch * tokens}).t();
  y.reset();  // freed before the larger output is made
  return torch::glu(out.forward(rows), -1).view({batch, tokens, -1});
}

CausalSsmMixer::CausalSsmMixer(const CausalMixerConfig& config) {
  ssm = register_module("ssm", std::make_shared<StateSpace>(StateSpaceShape{config.dim}));
  c_proj =
      register_module("c_proj", std::make_shared<Linear>(config.dim, 2 * config.dim, config.bias));
  ssm->draw_weights();
  if (config.options.conv > 0) {
    conv = register_module("conv", std::make_shared<CausalConv>(config.dim, config.options.conv));
  }
}

Tensor CausalSsmMixer::forward(const Tensor& x, const MixerCall& call) {
  const auto kept = [&](const char* name) {
    return call.state != nullptr ? &(*call.state)[name] : nullptr;
  };
  const auto u = conv == nullptr ? x : conv->forward(x, kept("conv"));
  return gated_output(ssm->forward(u, kept("ssm")), *c_proj, x.scalar_type());
}

}  // namespace tost
