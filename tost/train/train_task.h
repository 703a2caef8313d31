// The interface between the training loop and a kind's model, data and score, so that the loop
// knows nothing of images or tokens; and callbacks for a caller that watches a run, because the
// library prints nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tost/base/error.h"
#include "tost/comm/group.h"
#include "tost/data/batch_share.h"
#include "tost/data/watched_read.h"
#include "tost/train/adamw.h"
#include "tost/train/shared_step.h"

namespace tost {

struct MicroBatch {
  torch::Tensor loss;    // scalar with graph: the mean over the batch
  int64_t samples = 0;   // images, or tokens
  int64_t correct = -1;  // right predictions among them; -1 where accuracy means nothing
  // The weight of this process in the loss of the whole batch. Processes that divide the tokens of
  // the same rows all count the samples of these rows, and each has its share of the loss.
  double weight = 1;
};

// A batch as tensors on the CPU, in an order that the task defines; some may be undefined.
struct TaskInput {
  std::vector<torch::Tensor> tensors;
  int64_t samples = 0;
  double weight = 1;  // as in MicroBatch
};
struct TaskOutput {
  torch::Tensor loss;     // as in MicroBatch
  torch::Tensor correct;  // scalar int64; undefined where accuracy means nothing
};

struct BestMetric {
  std::string key;  // of the object that evaluate() returns
  bool higher_is_better = true;
};

class TrainTask {
 public:
  virtual ~TrainTask() = default;

  virtual torch::nn::Module& model() = 0;
  // Returns every trainable parameter once, by its name in the model's state.
  virtual std::vector<ParamGroup> param_groups() = 0;
  virtual std::string unit() const = 0;  // "images", "tokens"

  virtual int64_t samples_per_batch() const = 0;
  virtual int64_t rows_per_batch() const = 0;  // what processes that share a batch divide
  virtual int64_t batches_per_epoch() const = 0;
  // Begins an epoch at a batch. Batches are a function of (seed, epoch, batch index), so that a
  // resumed run gets the same batches as an uninterrupted one.
  virtual void start_epoch(int64_t epoch, int64_t first_batch) = 0;
  // Called before start_epoch() in a run of several processes. The task then returns only the
  // batches and rows of this process, and evaluate() divides the work and returns the whole result
  // on every process. `group`, which may be null, outlives the task.
  virtual void share_batches(const BatchShare& share, Group* group) = 0;
  // Throws a usage Error if sequences of this model cannot be divided into `parts` parts. Divided
  // batches are computed under a TokenSumsScope.
  virtual void check_token_parts(int64_t /*parts*/) const {
    fail_usage("sequence_parallel divides the tokens of texts and sequences, not ", unit(),
               "; leave it at 1.");
  }
  // Loads the next batch and stores it, so that next_batch() need not wait. May be called on
  // another thread while no other function runs. May throw a data Error.
  virtual void fetch() = 0;
  // Runs the model, in its present mode, on the fetched batch; fetches a batch if there is none.
  // May throw a data Error.
  virtual MicroBatch next_batch() = 0;
  // Whether the task has next_batch() in two parts, so that compute() depends only on the model and
  // on tensors on the CPU.
  virtual bool has_parts() const { return false; }
  virtual TaskInput take_input() { return {}; }
  virtual TaskOutput compute(const std::vector<torch::Tensor>& /*tensors*/) { return {}; }
  virtual double wait_seconds() const = 0;  // time next_batch() has waited for data since the start

  // Scores the model, which is in evaluation mode; returns nothing if `stop` ended it early.
  virtual std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) = 0;
  // The number of batches that evaluate() reads.
  virtual int64_t evaluation_reads() const { return 1; }
  virtual BestMetric best_metric() const = 0;
  // Sets the function through which evaluate() and measure_bound() read data; empty: directly.
  void watch_reads(ReadGuard guard) { read_guard_ = std::move(guard); }

  // An output of the model for the user; the model is in evaluation mode. Must not draw from
  // torch's default generator, which would change the run.
  virtual std::string sample(int64_t /*step*/) { return {}; }

  // Measures each layer's coding rates and bound on a fixed sample of evaluation data, in
  // evaluation mode. Returns {"samples", "layers"}, with layers as in nn/layer_rates.h. Must not
  // draw from torch's default generator. Called only if bound_every_steps is set, which tasks
  // without such layers refuse.
  virtual nlohmann::json measure_bound() { return {}; }

  // Describes the model without its weights, for the run folder and a resumed run.
  virtual nlohmann::json model_description() const = 0;
  // Metadata to store with the weights, so that one file contains the whole model.
  virtual std::map<std::string, std::string> model_metadata() const = 0;
  // Warnings since the last call, such as those about skipped files.
  virtual std::vector<std::string> take_messages() { return {}; }

 protected:
  MicroBatch computed(const TaskInput& input) {
    const TaskOutput output = compute(input.tensors);
    return {.loss = output.loss,
            .samples = input.samples,
            .correct = output.correct.defined() ? output.correct.item<int64_t>() : -1,
            .weight = input.weight};
  }

  ReadGuard read_guard_;
};

struct StartReport {
  int64_t first_step = 0;  // above 0 when resumed
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
  int64_t parameters = 0;
  std::string unit;  // "images", "tokens"
};

struct StepReport {
  int64_t step = 0;  // steps done, 1 ... total_steps
  int64_t total_steps = 0;
  int64_t epoch = 0;    // the running one, from 0
  double loss = 0;      // mean since the last line of the log
  double accuracy = 0;  // the same, 0 ... 1; NaN where the task has none
  double lr = 0;
  double samples_per_s = 0;
  double wait_share = 0;                  // of the time, spent waiting for data, 0 ... 1
  double eta_s = 0;                       // training steps left; evaluations not counted
  std::optional<ShareReport> peers = {};  // of several processes, only in lines of the log
};

class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void on_start(const StartReport&) {}
  virtual void on_step(const StepReport&) {}
  // `metrics` is the result of the task's evaluation with "step", "epoch" (from 1) and "best".
  virtual void on_eval(const nlohmann::json& /*metrics*/, bool /*best*/) {}
  // Called with a sample of the model after `step` steps (TrainTask::sample).
  virtual void on_sample(int64_t /*step*/, const std::string& /*text*/) {}
  virtual void on_checkpoint(const std::filesystem::path&) {}
  virtual void on_message(const std::string& /*one sentence*/) {}
};

}  // namespace tost
