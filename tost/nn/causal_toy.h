// Toy mixer: group means that always learn how fast they forget.
#pragma once

#include "tost/nn/causal_means.h"

namespace tost {

class CausalToyMixer : public CausalMeansMixer {
 public:
  explicit CausalToyMixer(const CausalMixerConfig& config)
      : CausalMeansMixer(forgetting(config), /*uniform=*/false) {}

 private:
  static CausalMixerConfig forgetting(CausalMixerConfig config) {
    config.options.decay = "learned";
    return config;
  }
};

}  // namespace tost
