// Which picture stands where in an epoch. Free of torch.
#pragma once

#include <cstdint>
#include <vector>

namespace tost {

struct SamplerConfig {
  bool shuffle = false;
  uint64_t seed = 0;
  // Repeated augmentation: every picture of the shuffled order comes `repeats` times in a row, and
  // an epoch is cut to the data set's size rounded down to a multiple of 256 (not rounded below
  // 256 pictures), as in the official code: about 1/repeats of the pictures are seen in an epoch.
  int64_t repeats = 1;
};

// The data set's indices in the order of epoch `epoch`: a pure function of its arguments.
std::vector<int64_t> epoch_order(int64_t size, const SamplerConfig& config, int64_t epoch);

// The length of epoch_order without computing it.
int64_t epoch_length(int64_t size, const SamplerConfig& config);

}  // namespace tost
