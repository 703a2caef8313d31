// Rates, correlations and norms of one layer, gathered over batches of pictures or of text.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tost/explain/measures.h"
#include "tost/nn/block.h"
#include "tost/nn/layer_rates.h"
#include "tost/torch.h"

namespace tost {

// Norms of tokens over many pictures, and the share of outliers (arXiv 2309.16588).
struct NormStatistics {
  int64_t tokens = 0;
  double mean = std::nan(""), deviation = std::nan(""), median = std::nan("");
  double largest = std::nan("");
  // Shares of the tokens whose norm is above the mean + 4 deviations, and above 3 medians.
  double beyond_deviations = std::nan(""), beyond_medians = std::nan("");
  // A histogram of norms in equal bins from 0 to `largest`; empty if all norms are 0.
  std::vector<int64_t> histogram;
  double register_mean = std::nan("");  // of the registers; NaN without
};

inline constexpr int64_t kNormBins = 40;

// Norms of all patches, and of all registers; undefined or empty if there are none. Values that are
// not finite are left out.
NormStatistics norm_statistics(const torch::Tensor& patches, const torch::Tensor& registers);

// Bound and exact coding rates of a layer's input over samples, for f(x) = log(1 + scale x).
struct RateGap {
  double scale = 0;
  Spread bound;        // R_var, the objective of the layer's step
  Spread exact_heads;  // in the coordinates of each head, at most the bound
  Spread exact_space;  // of the groups of normalised tokens in the whole space, where known
  Spread gap;          // bound - exact_heads
};

// The layer's objective, R_var at scale 1 with Π held fixed (nn/layer_rates.h): before the layer's
// step, after the step times LayerScale, and after the step without LayerScale.
struct ObjectiveStep {
  Spread before, stepped, unscaled;
  double lowered = std::nan(""), lowered_unscaled = std::nan("");  // shares of samples
};

// Average effects of a layer over samples, which are pictures or windows of a text. Rates use
// second moments over all tokens of a sample; a causal layer has these only at the last token.
struct LayerStatistics {
  bool has_memberships = false;
  Spread entropy;  // membership_entropy(), mean over a sample's tokens
  // The compression of the layer (arXiv 2412.17810, Section 3.1), by layer_compression().
  Spread rate_input;   // of the layer's projected input
  Spread rate_output;  // of its output before the residual addition, projected by the same heads
  Spread rate_after;   // after the residual addition, normalised and projected as an input
  // The mean of rate_after - rate_input over samples, and the share of samples where it is below 0.
  Spread rate_change;
  double rate_lowered = std::nan("");
  // The mean over samples of the correlations of projected tokens (see HeadCorrelations).
  torch::Tensor correlations, centered;  // |r| [H, P, P]; undefined without projections
  torch::Tensor off_diagonal, centered_off_diagonal;  // [H]
  double off_diagonal_mean = std::nan(""), centered_off_diagonal_mean = std::nan("");
  double off_diagonal_chance = std::nan("");
  // The exact rate in the heads' coordinates divided by the sum of logs of the diagonal, at scale 1
  // and for heads of unit norm. The ratio is 1 if features are uncorrelated.
  Spread diagonal_share, diagonal_share_unit;
  NormStatistics norms;
  // Gaps at scale 1 (the official code) and at C / eps^2 (the theory); empty unless requested.
  std::vector<RateGap> gaps;
  ObjectiveStep objective;
  // Of the codes of the second half's dictionary (nn/block.h), means over a sample's tokens: the
  // share of coefficients that are not 0, and the sum of all. Empty with the MLP gelu.
  Spread nonzero, l1;
};

// Statistics as JSON; numbers that are not finite are null.
nlohmann::json to_json(const Spread& spread);
nlohmann::json to_json(const NormStatistics& norms);
// With the correlation matrices of `heads` (from 1), to so many digits after the point.
nlohmann::json to_json(const LayerStatistics& layer, const std::vector<int64_t>& heads, int digits);

// The heads whose matrices a report shows of layer `i` (from 0): none unless the layer is chosen.
inline std::vector<int64_t> heads_shown(const std::vector<int64_t>& layers,
                                        const std::vector<int64_t>& heads, size_t i) {
  const bool chosen = std::find(layers.begin(), layers.end(), int64_t(i) + 1) != layers.end();
  return chosen ? heads : std::vector<int64_t>();
}

// Selects the parts of layer_rates() that LayerSums needs.
inline WantedRates wanted_rates(bool full, bool bound) {
  return {.released = full || bound, .theory = bound, .objective = bound};
}

class LayerSums {
 public:
  // u is the layer's subspaces() [H, C, P], undefined for a layer without rates. `full` adds
  // correlations and norms; `bound` adds gaps and the objective.
  LayerSums(const torch::Tensor& u, bool full, bool bound);

  // The exact rate in the whole space requires mixer_input in `seen`. The last `registers` tokens
  // of a sample are ignored.
  void add(const BlockTrace& seen, const LayerRates& rates, int64_t registers = 0);
  LayerStatistics result() const;

 private:
  struct GapValues {
    double scale = 0;
    std::vector<double> bound{}, exact_heads{}, exact_space{}, gap{};
  };
  struct StepValues {
    std::vector<double> before, stepped, unscaled, lowered, lowered_unscaled;
  };

  void add_norms(const torch::Tensor& output, int64_t registers);
  void add_codes(const torch::Tensor& codes, int64_t registers);
  void add_bounds(const BlockTrace& seen, const LayerRates& rates);
  void add_correlations(const BlockTrace& seen, const LayerRates& rates);

  torch::Tensor u_;  // float64
  bool full_, bound_;
  bool has_memberships_ = false;
  std::vector<double> entropy_, input_, output_, after_, change_, lowered_, share_, share_unit_,
      chance_, nonzero_, l1_;
  int64_t samples_ = 0;
  // Sums over samples.
  torch::Tensor correlations_, centered_, off_diagonal_, centered_off_diagonal_;
  std::vector<torch::Tensor> norms_, register_norms_;
  std::vector<GapValues> gaps_;
  StepValues step_;
};

// Correlations between features of a head's projected tokens, which the layer ignores. For each
// picture and head, with tokens weighted by membership: r_ij = M_ij / sqrt(M_ii M_jj). `absolute`
// uses the second moments M = 1/n_k sum_j pi_kj w_kj w_kj^T, of which the layer computes only the
// diagonal; `centered` takes the covariance. All in float64. Constant features have r = 0.
struct HeadCorrelations {
  torch::Tensor absolute, centered;  // |r| [B, H, P, P]
  torch::Tensor off_diagonal,
      centered_off_diagonal;  // mean of |r_ij|, i != j [B, H]; NaN for P = 1
  // The mean |r| of independent normal features, sqrt(2 / (pi n)), with the effective number of
  // tokens n = (sum pi)^2 / sum pi^2 [B, H].
  torch::Tensor chance;
};

// The shapes are w [B, N, C] and pi [B, H, N].
HeadCorrelations head_correlations(const torch::Tensor& w, const torch::Tensor& pi);

// Moves results from a GPU to the CPU, where the statistics are computed. Undefined stays
// undefined.
inline torch::Tensor on_cpu(const torch::Tensor& x) {
  return x.defined() ? x.to(torch::kCPU) : x;
}
inline std::vector<torch::Tensor> on_cpu(std::vector<torch::Tensor> all) {
  for (auto& x : all) x = on_cpu(x);
  return all;
}

inline void move_to_cpu(BlockTrace& trace) {
  for (auto* x : {&trace.mixer_input, &trace.mixer.w, &trace.mixer.pi, &trace.mixer.gate,
                  &trace.mixer_output, &trace.mixed, &trace.codes, &trace.output}) {
    *x = on_cpu(*x);
  }
}

inline void move_to_cpu(LayerRates& rates) {
  for (auto* x : {&rates.released.bound, &rates.released.exact, &rates.theory.bound,
                  &rates.theory.exact, &rates.compression_before, &rates.compression_after,
                  &rates.objective, &rates.objective_stepped, &rates.objective_unscaled}) {
    *x = on_cpu(*x);
  }
}

}  // namespace tost
