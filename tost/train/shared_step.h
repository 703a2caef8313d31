// A training step of which each process computes some batches, or rows of one.
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

// Sums over the batches of a step, first of one process, then of all.
struct StepTotals {
  double loss = 0;
  int64_t samples = 0, correct = 0;  // correct: -1 where accuracy means nothing
  bool stop = false;                 // a stop of this process, or of one of all, was requested
};

// Times of the steps since the last call.
struct ShareReport {
  double waiting = 0;        // share of the time that this process waited for others, 0 ... 1
  int64_t slowest_rank = 0;  // the one that computed longest
};

// Throws a usage Error where `world` processes cannot divide the batches of a step, the rows of a
// batch, or, among `token_parts` neighbours each, its tokens, into equal shares.
BatchShare divide_step(int64_t accumulate, int64_t batch, int64_t rank, int64_t world,
                       int64_t token_parts);

class SharedStep {
 public:
  // Both outlive it. Parameters get the values of process 0's before the first step (the caller's
  // work), and gradients that are sums over all processes.
  SharedStep(Group& group, const BatchShare& share, torch::nn::Module& model,
             BucketOptions options);

  const BatchShare& share() const { return share_; }
  Group& group() { return group_; }
  GradientBuckets& buckets() { return buckets_; }
  // The processes that share batch statistics; null where each has a separate batch.
  Group* batch_norm_group() { return norm_group_.get(); }
  // Over the processes that hold the same rows; null where each has whole sequences.
  const TokenSums* token_sums() const { return token_group_ ? &token_sums_ : nullptr; }
  // The loss of one of this process's batches, NaN where it is not finite on another process that
  // holds the same rows: all of them run its backward, or none.
  double agreed(double loss);

  void begin();
  // Around each of this process's batches; `batch` counts within the step.
  void before_batch(int64_t batch);
  void after_batch(int64_t batch);
  // On every process, also one that left out some of its batches.
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

// The share of this process, which the task gets too; null without a group.
std::unique_ptr<SharedStep> share_steps(const LoopConfig& config, TrainTask& task, Group* group);

// The rows of this process of each defined tensor.
std::vector<torch::Tensor> rows_of(const BatchShare& share, std::vector<torch::Tensor> tensors);

// The tokens of this process of x [B, N]; N must be a multiple of the parts.
torch::Tensor tokens_of(const BatchShare& share, const torch::Tensor& x);

// Throws a usage Error where `mixer` is not one of those whose tokens can be on several processes.
void check_split_mixer(const std::vector<std::string>& able, const std::string& mixer);

}  // namespace tost
