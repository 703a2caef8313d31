// Batch norm where the batch of a step is split among processes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/comm/group.h"

namespace tost {

// While in scope, batch norms of this thread's forward passes take their statistics from the parts
// that all processes of `group` hold. Null: from what this process holds.
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

// weight (z - mean) / sqrt(variance + eps) + bias of z [B, C, ...], with the moments of the rows of
// all processes, and its gradient.
torch::Tensor synced_batch_norm(Group& group, const torch::Tensor& z, const torch::Tensor& weight,
                                const torch::Tensor& bias, double eps, BatchMoments& moments);

// Running statistics of batch norms after a step, as one process would have them that computes the
// step's batches one after the other.
class RunningStatistics {
 public:
  // For all batch norms below `module`. Both outlive it.
  RunningStatistics(Group& group, const torch::nn::Module& module);

  bool empty() const { return norms_.empty(); }
  void begin();  // a step
  void before_batch();
  // `later`: batches of the step that come after this one. `counts`: this process speaks for it.
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
