// Mixer of running group means that are read from both ends. Not in the paper; see
// docs/long-sequences.md for where it comes from and what was measured.
#pragma once

#include "tost/nn/causal_means.h"

namespace tost {

// CausalMeansMixer with learned forgetting and the gate: the first half of the heads reads from the
// first token on, the other half (the smaller one of an odd number) from the last valid one back.
// Each half's horizons start on a ladder from 2 to 256 tokens.
class RunningMeansMixer : public CausalMeansMixer {
 public:
  // `uniform` as there.
  RunningMeansMixer(const MixerConfig& config, bool uniform);
};

}  // namespace tost
