// Lengths of tokens over many pictures, and how many stand out: high-norm artefacts
// (arXiv 2309.16588).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tost/explain/measures.h"
#include "tost/torch.h"

namespace tost {

struct NormStatistics {
  int64_t tokens = 0;
  double mean = std::nan(""), deviation = std::nan(""), median = std::nan("");
  double largest = std::nan("");
  // Shares of the tokens longer than mean + 4 deviations, and than 3 medians.
  double beyond_deviations = std::nan(""), beyond_medians = std::nan("");
  // Counts of equal bins from 0 to `largest`; empty without tokens or length.
  std::vector<int64_t> histogram;
  double register_mean = std::nan("");  // of the registers; NaN without
};

inline constexpr int64_t kNormBins = 40;

// Norms of all patches, and of all registers (may be undefined or empty). What is not finite is
// left out.
NormStatistics norm_statistics(const torch::Tensor& patches, const torch::Tensor& registers);

}  // namespace tost
