// How well a language model predicts given tokens, one number a token.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// What all evaluations of language models can be told.
struct LanguageEvalOptions {
  Precision precision = Precision::kFp32;  // or bf16
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;
};

struct TokenScores {
  torch::Tensor loss;    // -log p of the target in nats, float32
  torch::Tensor likely;  // bool: no token is likelier (the first of equals counts)
};

// For hidden [B, T, C] (LanguageModel::hidden) and targets [B, T] int64: one score for each target
// that is not -1, in row-major order. Logits are made for a few thousand tokens at a time and
// scored in float32.
TokenScores score_targets(const LanguageModel& model, const torch::Tensor& hidden,
                          const torch::Tensor& targets);

// A text whose last tokens are to be predicted from those before.
struct ScoredText {
  std::vector<int64_t> ids;
  int64_t targets = 0;  // the last of `ids` that are scored, 1 ... ids.size() - 1
};

// The scores of each text's targets, in order. The texts are read together, padded on the right,
// which a causal model does not see. Of a text beyond the model's context the beginning is left
// out; a data Error where the targets alone do not fit, or are none.
std::vector<TokenScores> score_texts(LanguageModel& model, const std::vector<ScoredText>& texts);

}  // namespace tost
