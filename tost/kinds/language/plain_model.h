// A language model computed the way a user of plain torch would write it: causal TSSA as its ATen
// definition, and torch's cross-entropy over whole logits.
#pragma once

#include <memory>
#include <vector>

#include "tost/kinds/language/model.h"

namespace tost {

// Throws a usage Error if there is no plain form of such a model: its mixer must be tssa in every
// block, without additions.
void check_plain_form(const LanguageConfig& config);

class PlainModel {
 public:
  // Shares the weights of `model`, which outlives this. Blocks whose mixer is not TSSA stay as they
  // are; additions to TSSA are left out (check_plain_form).
  explicit PlainModel(LanguageModel& model);

  // As LanguageModel::loss, its Errors included. Not while another thread uses the model.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets);

 private:
  void swap_mixers();

  LanguageModel& model_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::shared_ptr<TokenMixer>> other_;  // the mixers that are not in use
};

}  // namespace tost
