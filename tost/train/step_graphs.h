// A training step on a GPU as two graphs: forward, backward and the gradients' norm; then, once the
// host has seen loss and norm, the update.
#pragma once

#include <functional>
#include <string>

#include "tost/ops/graphed_call.h"
#include "tost/train/adamw.h"
#include "tost/train/ema.h"
#include "tost/train/loop_config.h"
#include "tost/train/train_task.h"

namespace tost {

// Steps are those of the trainer without graphs bit for bit, wherever torch's own operators repeat
// theirs. Gradients stay where they are from the first step on, and are set to zero between steps.
// Learning rate and count of steps lie on the device. Batches of other shapes get graphs of their
// own, or run plainly beyond GraphedCall::kMostShapes.
class StepGraphs {
 public:
  // Everything outlives it. `ema` may be null. `task` has parts.
  StepGraphs(TrainTask& task, AdamW& optimizer, Ema* ema, const LoopConfig& config,
             torch::Device device);

  // See GraphedCall::before_capture().
  void before_capture(const std::function<void()>& call);

  // Before the batches of a step: its gradients begin at zero.
  void begin();

  struct Batch {
    double loss = 0, norm = 0;  // norm: of all gradients so far
    int64_t samples = 0, correct = -1;
    double weight = 1;  // as in MicroBatch
  };
  // The task's next batch, its gradients added to the others'. Waits for the device, once.
  Batch add_batch();

  // The optimiser's step, and the averages', by gradients times `gradient_scale` (1 without clip).
  void update(double lr, double gradient_scale);

  // Why steps, or some of them, run without graphs, each reason once; else empty.
  std::string take_complaint();

 private:
  Tensors run_batch(const Tensors& tensors);

  TrainTask& task_;
  AdamW& optimizer_;
  Ema* ema_;
  const LoopConfig& config_;
  const torch::Device device_;
  bool begun_ = false;
  std::string said_;
  GraphedCall forward_backward_, update_;
};

// Whether this run's steps are to be graphs. Throws the usage Errors of graphs_wanted(), and one
// where they are asked for and cannot be.
bool steps_by_graphs(const LoopConfig& config, const TrainTask& task, torch::Device device);

}  // namespace tost
