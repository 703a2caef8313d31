// Scores logits in tensors, and ranks classes by their probabilities.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/comm/sums.h"
#include "tost/engine/class_scores.h"
#include "tost/engine/predict.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// The mean cross-entropy of logits [B, K], a differentiable float32 scalar. The targets are soft
// targets [B, K], whose rows sum to 1, or labels [B] int64 if these are undefined.
torch::Tensor classification_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                                  const torch::Tensor& targets = {});

// Counts the rows of logits whose largest entry is at the label, or at the largest entry of a soft
// target. Returns a scalar int64 tensor on the device of the logits.
torch::Tensor count_correct(const torch::Tensor& logits, const torch::Tensor& labels,
                            const torch::Tensor& targets = {});

// Adds rows of logits [B, K] with labels [B].
void add_scores(ClassScores& scores, const torch::Tensor& logits, const torch::Tensor& labels);

// Adds up the scores of all processes; returns false if a process was stopped. A null group changes
// nothing.
bool add_up(Group* group, ClassScores& scores, bool stopped);

struct PredictOptions {
  int64_t top_k = 5;  // at least 1; more than there are classes gives them all
  int64_t batch_size = 16;
  Precision precision = Precision::kFp32;  // or bf16, or int8 with `engine`
  bool engine = true;                      // where it supports the model
};

// The same of probabilities [K] in a tensor.
std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k);

}  // namespace tost
