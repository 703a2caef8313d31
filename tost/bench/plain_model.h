// A language model computed the way a user of plain torch would write it: causal TSSA as its ATen
// definition, and torch's cross-entropy over whole logits.
#pragma once

#include <memory>
#include <vector>

#include "tost/models/language_model.h"

namespace tost {

class PlainModel {
 public:
  // Shares the weights of `model`, which outlives this. Blocks whose mixer is not TSSA stay as they
  // are.
  explicit PlainModel(LanguageModel& model);

  // As LanguageModel::loss. Not while another thread uses the model.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets);

 private:
  void swap_mixers();

  LanguageModel& model_;
  std::vector<GptBlock*> blocks_;
  std::vector<std::shared_ptr<CausalMixer>> other_;  // the mixers that are not in use
};

}  // namespace tost
