// What the layers of an image classifier do on average over the pictures of a data set's split.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/eval/model_file.h"
#include "tost/explain/measures.h"
#include "tost/explain/segmentation.h"
#include "tost/explain/token_norms.h"

namespace tost {

// Scale P / eps^2 of the compression curve, with each head's tokens at unit norm.
inline constexpr double kEpsilonSquared = 0.01;
// The largest value such a curve can take: 1/2 P log(1 + 1 / eps^2).
double compression_ceiling(int64_t head_width);

// Bound and exact coding rates of one layer's input for one f(x) = log(1 + scale x), over pictures.
struct RateGap {
  double scale = 0;
  Spread bound;        // R_var, what the layer descends on
  Spread exact_heads;  // in each head's own coordinates, at most the bound
  Spread exact_space;  // of the groups of normalised tokens in the whole space
  Spread gap;          // bound - exact_heads
};

// The layer's own objective, R_var at scale 1 with Π held fixed (eval/layer_rates.h): before its
// step, after it as the network steps (LayerScale included), and after the whole step.
struct ObjectiveStep {
  Spread before, stepped, unscaled;
  double lowered = std::nan(""), lowered_unscaled = std::nan("");  // shares of pictures
};

struct LayerStatistics {
  bool has_memberships = false;
  Spread entropy;  // membership_entropy(), mean over a picture's tokens
  // The compression curve (arXiv 2412.17810, Section 3.1): compression_bound of unit-norm heads.
  Spread rate_input;   // of the layer's projected input
  Spread rate_output;  // of its output before the residual addition, projected by the same heads
  Spread rate_after;   // after the residual addition, normalised and projected as an input
  // rate_after less rate_input in the same picture, and the share of pictures where it is negative.
  Spread rate_change;
  double rate_lowered = std::nan("");
  // Correlations of projected tokens, see token_correlations.h; mean over pictures.
  torch::Tensor correlations, centered;  // |r| [H, P, P]; undefined without projections
  torch::Tensor off_diagonal, centered_off_diagonal;  // [H]
  double off_diagonal_mean = std::nan(""), centered_off_diagonal_mean = std::nan("");
  double off_diagonal_chance = std::nan("");
  // Exact rate of the groups in the heads' coordinates divided by the sum of logs of the diagonal:
  // 1 where the diagonal says it all. At the released scale 1, and of unit-norm heads.
  Spread diagonal_share, diagonal_share_unit;
  NormStatistics norms;
  // Where asked for: at scale 1 as released, and C / eps^2 as in the theory.
  std::vector<RateGap> gaps;
  ObjectiveStep objective;
};

struct SplitStatistics {
  std::string split;
  int64_t pictures = 0, right = 0;  // right: whose likeliest class is theirs
  std::vector<LayerStatistics> layers;
  std::optional<Segmentation> segmentation;
};

struct StatisticsOptions {
  int64_t samples = 256;
  bool full = true;      // false: the compression curve and entropies alone
  bool bound = false;    // fill RateGap
  bool segment = false;  // the data has masks, and scores are wanted
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;
};

// Evenly spaced pictures of `data`, a batch at a time, in evaluation mode. Nothing when `stop`
// ended it. Deterministic. Throws a data Error for a picture that cannot be read.
std::optional<SplitStatistics> split_statistics(ImageClassifier& model, const ModelInfo& info,
                                                const ImageDataset& data, const std::string& split,
                                                const StatisticsOptions& options);

}  // namespace tost
