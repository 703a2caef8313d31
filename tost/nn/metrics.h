// Sums the scores of a classifier over batches, and ranks classes by their probabilities.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/comm/sums.h"
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

// Adds up in float64 and integers, so that the order of batches affects the result only by
// rounding.
class ClassificationMeter {
 public:
  explicit ClassificationMeter(int64_t classes);

  void add(const torch::Tensor& logits, const torch::Tensor& labels);

  // Adds up the sums of all processes; returns false if a process was stopped. A null group changes
  // nothing.
  bool add_up(Group* group, bool stopped);

  int64_t images() const { return images_; }
  double loss() const;  // mean cross-entropy, nats
  double top1() const;  // share, 0 ... 1
  double top5() const;  // 1 where there are at most five classes
  // Counts [K, K] int64 by true class (row) and predicted class (column).
  const torch::Tensor& confusion() const { return confusion_; }

 private:
  int64_t images_ = 0, top1_ = 0, top5_ = 0;
  double loss_ = 0;
  torch::Tensor confusion_;
};

struct PredictOptions {
  int64_t top_k = 5;  // at least 1; more than there are classes gives them all
  int64_t batch_size = 16;
  Precision precision = Precision::kFp32;  // or bf16, or int8 with `engine`
  bool engine = true;                      // where it supports the model
};

// The same of probabilities [K] in a tensor.
std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k);

// Returns {"class", `items`: number of items, "top1"} for each class from counts `confusion`
// [class, predicted].
nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items);

}  // namespace tost
