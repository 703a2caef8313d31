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
  const auto ladder = [](int64_t heads) { return ForgettingRates(heads, "learned").decay; };
  rates->decay.copy_(torch::cat({ladder(config.heads - from_end_), ladder(from_end_)}));
}

}  // namespace tost
