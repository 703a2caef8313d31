#include "tost/nn/mixer_running_means.h"

namespace tost {
namespace {

CausalMixerConfig causal_config(const MixerConfig& c) {
  return {.dim = c.dim,
          .heads = c.heads,
          .bias = c.qkv_bias,
          .options = {.decay = "learned", .gate = true}};
}

}  // namespace

RunningMeansMixer::RunningMeansMixer(const MixerConfig& config, bool uniform)
    : CausalMeansMixer(causal_config(config), uniform) {
  from_end_ = config.heads / 2;
  const torch::NoGradGuard no_grad;
  rates->decay.copy_(ForgettingRates(config.heads / 2, "learned").decay.repeat(2));
}

}  // namespace tost
