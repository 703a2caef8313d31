#include "tost/nn/mixer_running_means.h"

namespace tost {
namespace {

using torch::Tensor;

CausalMixerConfig causal_config(const MixerConfig& c) {
  return {.dim = c.dim,
          .heads = c.heads,
          .bias = c.qkv_bias,
          .options = {.decay = "learned", .gate = true}};
}

// The second half of the channels or heads in the opposite order of tokens [B, N, ...].
Tensor turn_second_half(const Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return torch::cat({halves[0], halves[1].flip(1)}, -1);
}

}  // namespace

RunningMeansMixer::RunningMeansMixer(const MixerConfig& config, bool uniform)
    : CausalMeansMixer(causal_config(config), uniform) {
  const torch::NoGradGuard no_grad;
  rates->decay.copy_(ForgettingRates(config.heads / 2, "learned").decay.repeat(2));
}

Tensor RunningMeansMixer::read(const MeansCall& call, Tensor*, MixerTrace*) const {
  const MeansCall turned{turn_second_half(call.base), turn_second_half(call.values),
                         turn_second_half(call.gate), turn_second_half(call.pi), call.log_rates};
  return turn_second_half(means->forward(turned, nullptr));
}

}  // namespace tost
