#include "tost/explain/token_norms.h"

#include <algorithm>

namespace tost {

NormStatistics norm_statistics(const torch::Tensor& patches, const torch::Tensor& registers) {
  NormStatistics result;
  if (registers.defined()) result.register_mean = spread_of(registers).mean;
  const auto all = patches.to(torch::kDouble).flatten();
  const auto norms = all.masked_select(all.isfinite());
  result.tokens = norms.numel();
  if (result.tokens == 0) return result;
  const Spread spread = spread_of(norms);
  result.mean = spread.mean;
  result.deviation = spread.deviation;
  result.median = norms.median().item<double>();
  result.largest = norms.max().item<double>();
  const auto share = [&](double limit) {
    return (norms > limit).to(torch::kDouble).mean().item<double>();
  };
  result.beyond_deviations = share(result.mean + 4 * result.deviation);
  result.beyond_medians = share(3 * result.median);
  if (result.largest > 0) {
    const auto counts = torch::histc(norms, kNormBins, 0, result.largest);
    for (int64_t bin = 0; bin < kNormBins; ++bin) {
      result.histogram.push_back(counts[bin].item<int64_t>());
    }
  }
  return result;
}

}  // namespace tost
