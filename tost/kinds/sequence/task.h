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
// nothing is padded. If processes divide the tokens, it holds this process's.
TaskInput sequence_input(const BatchShare& share, const SequenceBatch& batch);

class SequenceTask
    : public ModelTask<SequenceTrainConfig, SequenceInfo, SequenceClassifier, SequenceBatch> {
 public:
  // Opens the data and makes the model. Weights are drawn from torch's default generator, or taken
  // from config.from, with a new head for data of other classes. `known`: the description a
  // resumed run was started with; the data must fit it. `has_checkpoint`: a known model's weights
  // come from there, config.from is not read. Usage Errors for settings that do not fit each other,
  // for sequences longer than the learned positions, and for more memory than the machine has; data
  // Errors for files.
  explicit SequenceTask(const SequenceTrainConfig& config,
                        std::optional<SequenceInfo> known = std::nullopt,
                        bool has_checkpoint = false);

  // The split that is scored in training: "validation", or "test" if there is no validation split.
  const std::string& scored_split() const { return scored_split_; }

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

// Throws a usage Error with both figures if a step on `batch` sequences of `tokens` tokens is
// estimated to need more than `available` bytes. 0 is unknown, and refuses nothing.
void check_training_memory(const SequenceConfig& config, int64_t batch, int64_t tokens,
                           int64_t available);

}  // namespace tost
