#include "tost/kinds/language/answer_task.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/process_memory.h"
#include "tost/base/random.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/answer_eval.h"
#include "tost/kinds/language/shared_input.h"
#include "tost/nn/cross_entropy.h"
#include "tost/nn/model_room.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;

LanguageConfig fine_tuned_config(const AnswerTrainConfig& config, const LanguageConfig& from) {
  check_same_mixer(config.from, from.mixer, config.mixer);
  return changed_answer_config(config, from);
}

LanguageInfo make_info(const AnswerTrainConfig& config, const LanguageInfo* from,
                       const TokenTaskData& data) {
  LanguageInfo info;
  if (data.bytes()) info.tokenizer = make_byte_tokenizer();
  info.config =
      from != nullptr ? fine_tuned_config(config, from->config) : answer_model_config(config, data);
  info.training = {{"recipe", config.recipe}, {"task", data.task()}};
  return info;
}

std::string split_to_score(const std::string& folder) {
  const bool held = is_plain_file(std::filesystem::path(folder) / "validation.safetensors");
  return held ? "validation" : "test";
}

TokenTaskData open_training(const std::string& folder) {
  if (is_token_task(folder)) return {folder, "train"};
  fail_usage("data is '", folder, "', which holds no task (train.safetensors with tokens and ",
             "targets); python -m tost.tasks makes one.");
}

}  // namespace

AnswerTask::AnswerTask(const AnswerTrainConfig& config, std::optional<LanguageInfo> known,
                       bool has_checkpoint)
    : ModelTask(config),
      data_(open_training(config.data)),
      scored_split_(split_to_score(config.data)),
      scored_(config.data, scored_split_),
      order_(size_t(data_.groups())),
      round_(size_t(data_.groups()), -1) {
  std::optional<LoadedLanguage> from;
  if (!config.from.empty() && !(known && has_checkpoint)) {
    from = load_language_file(config.from, Weights::kRaw);
  }
  info_ = known ? *std::move(known) : make_info(config, from ? &from->info : nullptr, data_);
  check_answers_fit(info_.config, data_);
  check_answers_fit(info_.config, scored_);
  for (int64_t group = 0; group < data_.groups(); ++group) {
    check_answer_memory(info_.config, data_.length(group) / config.sequence_parallel, config.batch,
                        /*training=*/true, room_on(device_from_name(config.device)));
  }
  if (config.sample_every_steps > 0 || config.bound_every_steps > 0) {
    fail_usage(config.sample_every_steps > 0 ? "sample_every_steps" : "bound_every_steps",
               " does not go with tasks; leave it at 0.");
  }
  model_ = make_language_model(info_.config);
  if (from) load_state_dict(*model_, state_dict(*from->model));
}

int64_t AnswerTask::samples_per_batch() const {
  int64_t tokens = 0;
  for (int64_t group = 0; group < data_.groups(); ++group) {
    tokens += config_.batch * data_.length(group);
  }
  return tokens / data_.groups();
}

int64_t AnswerTask::batches_per_epoch() const {
  return std::max(config_.accumulate, data_.all_samples() / config_.batch);
}

void AnswerTask::check_token_parts(int64_t parts) const {
  for (int64_t group = 0; group < data_.groups(); ++group) {
    check_language_parts(info_.config, data_.length(group), parts);
  }
}

void AnswerTask::start_epoch(int64_t epoch, int64_t first_batch) {
  fetched_.reset();
  epoch_ = epoch * batches_per_epoch();
  next_ = share_.next(first_batch);
}

std::vector<int64_t> AnswerTask::samples_of(int64_t group, int64_t turn) {
  std::vector<int64_t>& order = order_[size_t(group)];
  const int64_t count = data_.samples(group);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < config_.batch; ++i) {
    const int64_t at = turn * config_.batch + i, round = at / count;
    if (round != round_[size_t(group)]) {
      order.resize(size_t(count));
      std::iota(order.begin(), order.end(), int64_t{0});
      Random random(uint64_t(config_.seed), uint64_t(group), uint64_t(round));
      shuffle(order.data(), count, random);
      round_[size_t(group)] = round;
    }
    chosen.push_back(order[size_t(at % count)]);
  }
  return chosen;
}

void AnswerTask::fetch() {
  const auto start = std::chrono::steady_clock::now();
  const int64_t batch = epoch_ + next_;
  const int64_t group = batch % data_.groups();
  fetched_ = data_.batch(group, samples_of(group, batch / data_.groups()));
  next_ = share_.next(next_ + 1);
  fetched_tokens_ = config_.batch * data_.length(group);
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TaskInput AnswerTask::take_input() {
  const TokenTaskBatch batch = take_fetched();
  check_ids(info_.config, batch.ids);
  check_targets(batch.targets, info_.config.vocab);
  return language_input(share_, batch.ids, batch.targets, fetched_tokens_);
}

TaskOutput AnswerTask::compute(const std::vector<torch::Tensor>& tensors) {
  return {.loss = model_->loss(tensors[0], tensors[1], tensors[2]), .correct = {}};
}

std::optional<json> AnswerTask::evaluate(const std::atomic<bool>* stop) {
  AnswerEvalOptions options;
  options.samples = config_.eval_samples;
  options.precision = config_.precision;
  options.stop = stop;
  options.read_guard = read_guard_;
  options.group = group_;
  const auto scores = evaluate_answers(*model_, scored_, options);
  if (!scores) return std::nullopt;
  json metrics = to_json(*scores);
  metrics["split"] = scored_split_;
  return metrics;
}

}  // namespace tost
