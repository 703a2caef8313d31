// Scores of a classifier, summed over batches.
#pragma once

#include <cstdint>

#include "tost/comm/sums.h"
#include "tost/torch.h"

namespace tost {

// Mean cross-entropy of logits [B, K] against soft targets [B, K] (rows sum to 1), or where those
// are undefined against labels [B] int64. Scalar, float32, differentiable; bf16 logits are widened
// first.
torch::Tensor classification_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                                  const torch::Tensor& targets = {});

// Rows of logits whose largest entry is at the label (with soft targets: at the target's largest
// entry).
int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels,
                      const torch::Tensor& targets = {});
// The same as a scalar int64 tensor where the logits lie.
torch::Tensor count_correct_here(const torch::Tensor& logits, const torch::Tensor& labels,
                                 const torch::Tensor& targets = {});

// Sums in float64 and integers, so that the result depends on the order of batches only by
// rounding.
class ClassificationMeter {
 public:
  explicit ClassificationMeter(int64_t classes);

  void add(const torch::Tensor& logits, const torch::Tensor& labels);

  // Puts the sums of all processes into each; false where one of them was stopped. A null group
  // adds nothing.
  bool add_up(Group* group, bool stopped);

  int64_t images() const { return images_; }
  double loss() const;  // mean cross-entropy, nats
  double top1() const;  // share, 0 ... 1
  double top5() const;  // 1 where there are at most five classes
  // [K, K] int64: row true class, column prediction.
  const torch::Tensor& confusion() const { return confusion_; }
  // [K] float64: share of each class's images predicted right; NaN for a class without images.
  torch::Tensor class_accuracy() const;

 private:
  int64_t images_ = 0, top1_ = 0, top5_ = 0;
  double loss_ = 0;
  torch::Tensor confusion_;
};

}  // namespace tost
