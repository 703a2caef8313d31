// Gathers one layer's numbers over batches of pictures.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "tost/eval/layer_rates.h"
#include "tost/explain/vision_statistics.h"
#include "tost/models/block.h"

namespace tost {

class LayerSums {
 public:
  LayerSums(std::shared_ptr<Block> block, const StatisticsOptions& options);

  // Layer `index` of what a batch showed; `rates` are its own.
  void add(const VisionTrace& trace, size_t index, const LayerRates& rates);
  LayerStatistics result() const;

 private:
  struct GapValues {
    double scale = 0;
    std::vector<double> bound{}, exact_heads{}, exact_space{}, gap{};
  };
  struct StepValues {
    std::vector<double> before, stepped, unscaled, lowered, lowered_unscaled;
  };

  void add_bounds(const VisionTrace& trace, size_t index, const LayerRates& rates);
  void add_correlations(const torch::Tensor& w, const torch::Tensor& pi);

  std::shared_ptr<Block> block_;
  bool full_, bound_;
  bool has_memberships_ = false;
  std::vector<double> entropy_, input_, output_, after_, change_, lowered_, share_, share_unit_,
      chance_;
  int64_t pictures_ = 0;
  // Sums over pictures.
  torch::Tensor correlations_, centered_, off_diagonal_, centered_off_diagonal_;
  std::vector<torch::Tensor> norms_, register_norms_;
  std::vector<GapValues> gaps_;
  StepValues step_;
};

}  // namespace tost
