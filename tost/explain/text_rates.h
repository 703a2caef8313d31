// The rates, correlations and norms of one layer of a language model over windows of text.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "tost/eval/layer_rates.h"
#include "tost/explain/vision_statistics.h"
#include "tost/models/gpt_block.h"

namespace tost {

// Gathers what eval/layer_rates.h measures, and the rate of the mixer's output, correlations and
// norms. Rates are those of whole windows: second moments over all tokens of one, which the causal
// layer itself has at the window's last token.
class TextRates {
 public:
  TextRates(std::shared_ptr<GptBlock> block, bool bound)
      : block_(std::move(block)), bound_(bound) {}

  void add(const GptTrace& trace, const LayerRates& rates);
  // As for pictures, but for memberships' entropies, registers and exact_space.
  LayerStatistics result() const;

 private:
  void add_correlations(const torch::Tensor& w, const torch::Tensor& pi);

  std::shared_ptr<GptBlock> block_;
  bool bound_ = false;
  std::vector<double> input_, output_, after_, share_, share_unit_, chance_;
  std::vector<double> bounds_[2], exact_[2], gaps_[2];  // scales 1, C / 0.01
  std::vector<double> step_[3], lowered_[2];            // ObjectiveStep
  torch::Tensor correlations_, off_diagonal_;           // sums over windows
  int64_t windows_ = 0;
  std::vector<torch::Tensor> norms_;
};

}  // namespace tost
