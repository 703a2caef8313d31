#include "tost/nn/causal_mixer.h"

namespace tost {

std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config) {
  if (!config.options.gate) return nullptr;
  return mixer.register_module("gate",
                               std::make_shared<Linear>(config.dim, config.dim, config.bias));
}

torch::Tensor project_gated(const torch::Tensor& y, const torch::Tensor& x, const Linear* gate,
                            const Linear& out, MixerTrace* trace) {
  if (gate == nullptr) return out.forward(y);
  const auto factor = torch::silu(gate->forward(x));
  if (trace != nullptr) trace->gate = factor;
  return out.forward(y * factor);
}

}  // namespace tost
