// Trains a classifier of sequences: data, model, loss and score for the loop.
#pragma once

#include <memory>
#include <optional>

#include "tost/data/sequence_batch.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/train/model_task.h"
#include "tost/train/train_task.h"

namespace tost {

// The ids and lengths of the first and the second sequences, and labels. Lengths are undefined if
// there is no padding. If processes divide the tokens, tensors have the part of this process.
TaskInput sequence_input(const BatchShare& share, const SequenceBatch& batch);

class SequenceTask
    : public ModelTask<SequenceTrainConfig, SequenceInfo, SequenceClassifier, SequenceBatch> {
 public:
  // Opens the data and makes the model. Torch's default generator draws the weights, or config.from
  // gives them, with a new head for other classes. `known` is the description of a resumed run's
  // model, which the data must fit. With `has_checkpoint`, the checkpoint gives the weights, and
  // config.from is not read. Throws usage Errors for settings that do not match, for sequences
  // longer than the learned positions, and for a lack of memory; data Errors for files.
  explicit SequenceTask(const SequenceTrainConfig& config,
                        std::optional<SequenceInfo> known = std::nullopt,
                        bool has_checkpoint = false);

  std::vector<ParamGroup> param_groups() override {
    return with_decay(sequence_decay_groups(*model_));
  }
  std::string unit() const override { return "sequences"; }
  int64_t samples_per_batch() const override { return config_.batch; }
  int64_t batches_per_epoch() const override { return train_->size() / config_.batch; }
  void check_token_parts(int64_t parts) const override;
  void start_epoch(int64_t epoch, int64_t first_batch) override;
  void fetch() override;
  TaskInput take_input() override;
  TaskOutput compute(const std::vector<torch::Tensor>& tensors) override;
  double wait_seconds() const override;
  // Returns top1, loss, sequences, seconds and split.
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override;
  int64_t evaluation_reads() const override { return 1 + scored_->size() / config_.eval_batch; }
  BestMetric best_metric() const override { return {"top1", true}; }
  std::vector<std::string> take_messages() override;

 private:
  void open_data();
  void check_lengths() const;
  void take_weights(const LoadedSequence& source);

  std::shared_ptr<const SequenceDataset> train_, scored_;
  std::string scored_split_;
  std::unique_ptr<SequenceFeed> feed_;
  double waited_ = 0;  // for the feeds of earlier epochs
  std::vector<std::string> messages_;
};

// Throws a usage Error with both figures if the estimate for a step on `batch` sequences of
// `tokens` tokens exceeds `available` bytes (0: unknown).
void check_training_memory(const SequenceConfig& config, int64_t batch, int64_t tokens,
                           int64_t available);

}  // namespace tost
