#include "tost/kinds/language/recall_task.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/recall_eval.h"
#include "tost/kinds/language/shared_input.h"
#include "tost/nn/cross_entropy.h"
#include "tost/nn/model_room.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int64_t kBatchesAnEpoch = 1000;

LanguageConfig fine_tuned_config(const RecallTrainConfig& config, const LanguageConfig& from) {
  check_same_mixer(config.from, from.mixer, config.mixer);
  return changed_recall_config(config, from);
}

// What `tost eval` needs to ask the same.
json facts_of(const RecallTrainConfig& config) {
  json facts = TOST_MEMBERS(config, task, lengths, pairs, vocab, power, random_filler, distractors,
                            questions, gap, noise);
  facts["haystack"] = std::filesystem::path(config.haystack).filename().string();
  return facts;
}

LanguageInfo make_info(const RecallTrainConfig& config, const LanguageInfo* from,
                       const RecallSource& source) {
  LanguageInfo info;
  if (config.task == "needle") info.tokenizer = make_byte_tokenizer();
  info.config = from != nullptr ? fine_tuned_config(config, from->config)
                                : recall_model_config(config, source);
  info.training = {{"recipe", config.recipe}, {"recall", facts_of(config)}};
  return info;
}

}  // namespace

RecallTask::RecallTask(const RecallTrainConfig& config, std::optional<LanguageInfo> known,
                       bool has_checkpoint)
    : ModelTask(config),
      cases_(recall_cases(config)),
      source_(open_recall(recall_spec(config, uint64_t(config.seed)))),
      scored_(open_recall(recall_spec(config, 0))) {
  std::optional<LoadedLanguage> from;
  if (!config.from.empty() && !(known && has_checkpoint)) {
    from = load_language_file(config.from, Weights::kRaw);
  }
  info_ = known ? *std::move(known) : make_info(config, from ? &from->info : nullptr, *source_);
  check_recall_fits(info_.config, *source_, cases_);
  for (const RecallCase& size : cases_) {
    check_recall_memory(info_.config, size.length / config.sequence_parallel, config.batch,
                        /*training=*/true, room_on(device_from_name(config.device)));
  }
  if (config.sample_every_steps > 0 || config.bound_every_steps > 0) {
    fail_usage(config.sample_every_steps > 0 ? "sample_every_steps" : "bound_every_steps",
               " does not go with tasks of recall; leave it at 0.");
  }
  model_ = make_language_model(info_.config);
  if (from) load_state_dict(*model_, state_dict(*from->model));
}

int64_t RecallTask::samples_per_batch() const {
  int64_t tokens = 0;
  for (const RecallCase& size : cases_) tokens += config_.batch * size.length;
  return tokens / std::ssize(cases_);
}

int64_t RecallTask::batches_per_epoch() const {
  return std::max(config_.accumulate, kBatchesAnEpoch);
}

void RecallTask::check_token_parts(int64_t parts) const {
  for (const RecallCase& size : cases_) check_language_parts(info_.config, size.length, parts);
}

void RecallTask::start_epoch(int64_t epoch, int64_t first_batch) {
  fetched_.reset();
  epoch_ = epoch * batches_per_epoch();
  next_ = share_.next(first_batch);
}

void RecallTask::fetch() {
  const auto start = std::chrono::steady_clock::now();
  const int64_t batch = epoch_ + next_;
  const RecallCase& size = cases_[size_t(batch % std::ssize(cases_))];
  fetched_ = make_recall_batch(*source_, size, "train", batch * config_.batch, config_.batch);
  next_ = share_.next(next_ + 1);
  fetched_tokens_ = config_.batch * size.length;
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TaskInput RecallTask::take_input() {
  const RecallBatch batch = take_fetched();
  check_ids(info_.config, batch.ids);
  check_targets(batch.targets, info_.config.vocab);
  return language_input(share_, batch.ids, batch.targets, fetched_tokens_);
}

TaskOutput RecallTask::compute(const std::vector<torch::Tensor>& tensors) {
  return {.loss = model_->loss(tensors[0], tensors[1], tensors[2]), .correct = {}};
}

std::optional<json> RecallTask::evaluate(const std::atomic<bool>* stop) {
  RecallEvalOptions options;
  options.split = "validation";
  options.samples = config_.eval_samples;
  options.precision = config_.precision;
  options.stop = stop;
  options.read_guard = read_guard_;
  options.group = group_;
  const auto scores = evaluate_recall(*model_, *scored_, cases_, options);
  if (!scores) return std::nullopt;
  const RecallTotals totals = recall_totals(*scores);
  json cases = json::array();
  for (const RecallScores& one : *scores) cases.push_back(to_json(one, config_.task));
  json metrics = TOST_MEMBERS(totals, accuracy, exact, loss, tokens);
  metrics.update({{"split", options.split}, {"cases", cases}});
  return metrics;
}

}  // namespace tost
