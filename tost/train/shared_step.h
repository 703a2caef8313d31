// A training step whose batches, or rows of a batch, are divided over processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/comm/batch_norms.h"
#include "tost/comm/gradient_buckets.h"
#include "tost/comm/group.h"
#include "tost/comm/sums.h"
#include "tost/data/batch_share.h"

namespace tost {

class TrainTask;
struct LoopConfig;

// Sums over the batches of a step, first of one process, then of all processes.
struct StepTotals {
  double loss = 0;
  int64_t samples = 0, correct = 0;  // correct: -1 where accuracy means nothing
  bool stop = false;                 // a stop of this process, or of one of all, was requested
};

// Times of the steps since the last report.
struct ShareReport {
  double waiting = 0;        // share of the time that this process waited for others, 0 ... 1
  int64_t slowest_rank = 0;  // the one that computed longest
};

// Computes the share of process `rank`. Throws a usage Error if batches, rows, or tokens (over
// `token_parts` neighbours) cannot be divided equally.
BatchShare divide_step(int64_t accumulate, int64_t batch, int64_t rank, int64_t world,
                       int64_t token_parts);

class SharedStep {
 public:
  // Group and model must outlive this object. The caller must copy the parameters of process 0 to
  // all processes before the first step. Gradients become sums over all processes.
  SharedStep(Group& group, const BatchShare& share, torch::nn::Module& model,
             BucketOptions options);

  const BatchShare& share() const { return share_; }
  Group& group() { return group_; }
  GradientBuckets& buckets() { return buckets_; }
  // The processes that share batch statistics; null if each process has separate batches.
  Group* batch_norm_group() { return norm_group_.get(); }
  // Sums over the processes that divide the tokens of the same rows; null for whole sequences.
  const TokenSums* token_sums() const { return token_group_ ? &token_sums_ : nullptr; }
  // Returns the loss of a batch, or NaN if another process with the same rows has a loss that is
  // not finite. Either all processes with the same rows run backward, or none.
  double agreed(double loss);

  void begin();
  // Must be called before and after each batch of this process; `batch` counts within the step.
  void before_batch(int64_t batch);
  void after_batch(int64_t batch);
  // Must be called on every process, even if it skipped batches.
  StepTotals finish(const StepTotals& local);

  ShareReport take_report();

 private:
  using Clock = std::chrono::steady_clock;

  Group& group_;
  BatchShare share_;
  GradientBuckets buckets_;
  RunningStatistics statistics_;
  std::unique_ptr<Group> norm_group_, token_group_;
  TokenSums token_sums_;
  int64_t last_ = 0;  // of this process's batches
  Clock::time_point began_ = Clock::now(), reported_ = Clock::now();
  double waited_ = 0;                 // by the last report
  std::vector<double> busy_seconds_;  // by rank, since the last report
};

// Makes the shared step and tells the task its share; returns null if there is no group.
std::unique_ptr<SharedStep> share_steps(const LoopConfig& config, TrainTask& task, Group* group);

// Cuts each defined tensor to the rows of this process.
std::vector<torch::Tensor> rows_of(const BatchShare& share, std::vector<torch::Tensor> tensors);

// Cuts x [B, N] to the tokens of this process; N must be a multiple of the number of parts.
torch::Tensor tokens_of(const BatchShare& share, const torch::Tensor& x);

// Throws a usage Error unless `mixer` is in `able`, the list of mixers whose tokens can be divided.
void check_split_mixer(const std::vector<std::string>& able, const std::string& mixer);

}  // namespace tost
