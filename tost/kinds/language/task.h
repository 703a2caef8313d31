// Training a language model: text, model, loss and score for the loop.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "tost/data/token_data.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/train_config.h"
#include "tost/train/model_task.h"

namespace tost {

class LanguageTask : public ModelTask<LanguageTrainConfig, LanguageInfo, LanguageModel,
                                      std::pair<torch::Tensor, torch::Tensor>> {
 public:
  // Opens the text and makes the model. Weights are drawn from torch's default generator, or taken
  // from config.from. `known`: the description a resumed run was started with; the text is then cut
  // by its tokenizer. `has_checkpoint`: a known model's weights come from there, config.from is not
  // read. Usage Errors for settings that do not fit each other, data Errors for files.
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
  // loss (nats a token), perplexity, bits_per_byte (where the text's size is known), split, tokens.
  // Mean over eval_batches batches of random crops, the same at every call.
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override;
  int64_t evaluation_reads() const override { return config_.eval_batches; }
  BestMetric best_metric() const override { return {"loss", false}; }
  std::string sample(int64_t step) override;
  // Of crops of the scored text, the same at every call.
  nlohmann::json measure_bound() override;

 private:
  void choose_scored_split();
  void check_lengths() const;

  TextData data_;
  std::shared_ptr<const TokenSource> scored_;
  std::string scored_split_;
  int64_t scored_bytes_ = 0;
  // Index of this epoch's first batch in the stream of all, and of the next one in the epoch.
  int64_t epoch_ = 0, next_ = 0;
  double wait_seconds_ = 0;
};

}  // namespace tost
