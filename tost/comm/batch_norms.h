// Batch norm for a batch that is split among processes.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/comm/group.h"

namespace tost {

// While in scope, batch norms in this thread's forward passes use statistics over the parts of all
// processes of `group`, or of this process if `group` is null.
class BatchNormScope {
 public:
  explicit BatchNormScope(Group* group);
  ~BatchNormScope();
  BatchNormScope(const BatchNormScope&) = delete;
  BatchNormScope& operator=(const BatchNormScope&) = delete;

  static Group* group();

 private:
  Group* before_;
};

struct BatchMoments {
  torch::Tensor mean, variance;  // [C] float32; the variance divides by `rows`
  int64_t rows = 0;              // of a channel, on all processes
};

// Returns the batch norm weight (z - mean) / sqrt(variance + eps) + bias of z [B, C, ...],
// differentiable, with moments over the rows of all processes.
torch::Tensor synced_batch_norm(Group& group, const torch::Tensor& z, const torch::Tensor& weight,
                                const torch::Tensor& bias, double eps, BatchMoments& moments);

// Updates the running statistics of batch norms as if one process computed the batches of the step
// one after the other.
class RunningStatistics {
 public:
  // Collects all batch norms in `module`; group and module must outlive this object.
  RunningStatistics(Group& group, const torch::nn::Module& module);

  bool empty() const { return norms_.empty(); }
  void begin();  // a step
  void before_batch();
  // `later` is the number of later batches in the step. `counts` is true in one process of those
  // that share a batch.
  void after_batch(int64_t later, bool counts);
  void finish(int64_t batches);  // a step of so many batches on all processes

 private:
  struct Norm {
    torch::Tensor mean, variance, tracked;
    double momentum;
  };
  torch::Tensor values() const;  // one after the other, float64

  Group& group_;
  std::vector<Norm> norms_;
  torch::Tensor keep_;  // 1 - momentum, of every value
  torch::Tensor at_start_, before_, added_;
  std::vector<int64_t> tracked_;
};

}  // namespace tost
