// Trains a language model on a text or on a task of tokens: data, model, loss and score for the
// loop.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "tost/data/token_task.h"
#include "tost/io/token_data.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/train_config.h"
#include "tost/train/model_task.h"
#include "tost/train/shared_step.h"

namespace tost {

class LanguageTask : public ModelTask<LanguageTrainConfig, LanguageInfo, LanguageModel,
                                      std::pair<torch::Tensor, torch::Tensor>> {
 public:
  // Opens the text and makes the model. Torch's default generator draws the weights, or config.from
  // gives them. `known` is the description of a resumed run's model, whose tokenizer is then used.
  // With `has_checkpoint`, the checkpoint gives the weights, and config.from is not read. Throws
  // usage Errors for settings that do not match, data Errors for files.
  explicit LanguageTask(const LanguageTrainConfig& config,
                        std::optional<LanguageInfo> known = std::nullopt,
                        bool has_checkpoint = false);

  std::vector<ParamGroup> param_groups() override {
    return with_decay(language_decay_groups(*model_));
  }
  std::string unit() const override { return "tokens"; }
  int64_t samples_per_batch() const override { return config_.batch * info_.config.block; }
  int64_t batches_per_epoch() const override;
  void check_token_parts(int64_t parts) const override;
  void start_epoch(int64_t epoch, int64_t first_batch) override;
  void fetch() override;
  TaskInput take_input() override;
  TaskOutput compute(const std::vector<torch::Tensor>& tensors) override;
  double wait_seconds() const override { return wait_seconds_; }
  // Returns loss (nats a token), perplexity, bits_per_byte (if the text's size is known), split and
  // tokens: means over eval_batches batches of random crops, the same at every call.
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override;
  int64_t evaluation_reads() const override { return config_.eval_batches; }
  BestMetric best_metric() const override { return {"loss", false}; }
  std::string sample(int64_t step) override;
  // Evaluates crops of the scored text, the same at every call.
  nlohmann::json measure_bound() override;

 private:
  void choose_scored_split();
  void check_lengths() const;

  TextData data_;
  std::shared_ptr<const TokenSource> scored_;
  std::string scored_split_;
  int64_t scored_bytes_ = 0;
  // Indices: of the epoch's first batch among all batches, and of the next batch in the epoch.
  int64_t epoch_ = 0, next_ = 0;
  double wait_seconds_ = 0;
};

// Ids, targets and the rows with targets, for LanguageModel::loss(). The loss is a mean over
// targets, so the weight of a part is its number of targets. `samples` counts the whole batch. If
// processes divide the tokens, tensors have the part of this process.
TaskInput language_input(const BatchShare& share, const torch::Tensor& ids,
                         const torch::Tensor& targets, int64_t samples);

class AnswerTask
    : public ModelTask<AnswerTrainConfig, LanguageInfo, LanguageModel, TokenTaskBatch> {
 public:
  // Torch's default generator draws the weights, or config.from gives them. `known` and
  // `has_checkpoint` are those of LanguageTask. Throws usage Errors for settings that do not match,
  // data Errors for files.
  explicit AnswerTask(const AnswerTrainConfig& config,
                      std::optional<LanguageInfo> known = std::nullopt,
                      bool has_checkpoint = false);

  std::vector<ParamGroup> param_groups() override {
    return with_decay(language_decay_groups(*model_));
  }
  std::string unit() const override { return "tokens"; }
  int64_t samples_per_batch() const override;
  int64_t batches_per_epoch() const override;
  void check_token_parts(int64_t parts) const override;
  void start_epoch(int64_t epoch, int64_t first_batch) override;
  // Batch i has samples of group i modulo the number of groups. A group's samples are shuffled
  // again after all have been used. The batch depends only on the seed and i.
  TaskInput take_input() override;
  TaskOutput compute(const std::vector<torch::Tensor>& tensors) override;
  void fetch() override;
  double wait_seconds() const override { return wait_seconds_; }
  // Returns to_json() of AnswerScores for the split validation, or for test if there is none.
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override;
  BestMetric best_metric() const override { return {"accuracy", true}; }

 private:
  std::vector<int64_t> samples_of(int64_t group, int64_t turn);

  TokenTaskData data_;
  std::string scored_split_;
  TokenTaskData scored_;
  std::vector<std::vector<int64_t>> order_;  // by group, of the round below
  std::vector<int64_t> round_;
  // Indices: of the epoch's first batch among all batches, and of the next batch in the epoch.
  int64_t epoch_ = 0, next_ = 0;
  int64_t fetched_tokens_ = 0;  // of it, as samples_per_batch() counts
  double wait_seconds_ = 0;
};

}  // namespace tost
