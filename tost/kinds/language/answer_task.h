// Training a language model on a task of tokens: samples, model, loss and score for the loop.
#pragma once

#include <memory>
#include <optional>

#include "tost/data/token_task.h"
#include "tost/kinds/language/answer_train_config.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/train/model_task.h"

namespace tost {

class AnswerTask
    : public ModelTask<AnswerTrainConfig, LanguageInfo, LanguageModel, TokenTaskBatch> {
 public:
  // Weights are drawn from torch's default generator, or taken from config.from. `known` and
  // `has_checkpoint` as in LanguageTask. Usage Errors for settings that do not fit each other, data
  // Errors for files.
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
  // Batch i is of group i modulo their number; a group's samples come in a new order every time
  // that all have been used. A pure function of seed and i.
  TaskInput take_input() override;
  TaskOutput compute(const std::vector<torch::Tensor>& tensors) override;
  void fetch() override;
  double wait_seconds() const override { return wait_seconds_; }
  // See to_json() of AnswerScores; of the split validation, or test where there is none.
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override;
  BestMetric best_metric() const override { return {"accuracy", true}; }

 private:
  std::vector<int64_t> samples_of(int64_t group, int64_t turn);

  TokenTaskData data_;
  std::string scored_split_;
  TokenTaskData scored_;
  std::vector<std::vector<int64_t>> order_;  // by group, of the round below
  std::vector<int64_t> round_;
  // Index of this epoch's first batch in the stream of all, and of the next one in the epoch.
  int64_t epoch_ = 0, next_ = 0;
  int64_t fetched_tokens_ = 0;  // of it, as samples_per_batch() counts
  double wait_seconds_ = 0;
};

}  // namespace tost
