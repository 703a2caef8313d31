#include "tost/kinds/language/task.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/comm/sums.h"
#include "tost/kinds/language/sample.h"
#include "tost/kinds/language/shared_input.h"
#include "tost/kinds/language/tokenizer.h"
#include "tost/nn/cross_entropy.h"
#include "tost/nn/decay_groups.h"
#include "tost/nn/layer_rates.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

// Evaluation draws the same crops in every run, whatever its seed.
constexpr uint64_t kEvaluationSeed = 0x5eed'e7a1;

// Passages whose layers are measured; a measurement stays far below an evaluation.
constexpr int64_t kBoundCrops = 8;

// GPT-2's 50,257 ids get the 50,304 rows of the official models, a multiple of 64; any other
// vocabulary is taken exactly.
int64_t rows_for(int64_t vocabulary) {
  constexpr int64_t kGpt2 = 50257, kGpt2Rows = 50304;
  return vocabulary == kGpt2 ? kGpt2Rows : vocabulary;
}

LanguageConfig fine_tuned_config(const LanguageTrainConfig& config, const LanguageConfig& from) {
  if (!config.mixer.empty() && config.mixer != from.mixer) {
    fail_usage("'", config.from, "' was trained with mixer ", from.mixer,
               " and cannot continue with ", config.mixer, ".");
  }
  return changed_language_config(config.mixer, config.model_options, from);
}

LanguageInfo make_info(const LanguageTrainConfig& config, const LanguageInfo* from,
                       const TextData& data) {
  LanguageInfo info;
  info.tokenizer = data.tokenizer;
  if (from != nullptr) {
    info.config = fine_tuned_config(config, from->config);
  } else {
    info.config = language_config(config);
    if (!config.model_options.contains("vocab")) info.config.vocab = rows_for(data.vocab_size);
    validate(info.config);
  }
  if (info.config.vocab < data.vocab_size) {
    fail_usage("The model has ", info.config.vocab, " tokens but '", config.data, "' uses ",
               data.vocab_size,
               from != nullptr ? "; it was cut by another tokenizer."
                               : "; raise vocab in model_options or leave it out.");
  }
  info.training = {{"data", std::filesystem::path(config.data).filename().string()},
                   {"recipe", config.recipe},
                   {"tokens_per_step", config.batch * config.accumulate * info.config.block}};
  return info;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const LanguageInfo* info) {
  return info != nullptr ? info->tokenizer : nullptr;
}

}  // namespace

LanguageTask::LanguageTask(const LanguageTrainConfig& config, std::optional<LanguageInfo> known,
                           bool has_checkpoint)
    : config_(config) {
  std::optional<LoadedLanguage> source;
  if (!config.from.empty() && !(known && has_checkpoint)) {
    source = load_language_file(config.from, Weights::kRaw);
    // The text is cut as the source's was, whatever `tokenizer` says; so it must not say otherwise.
    check_own_tokenizer(config.tokenizer, source->info, config.from);
  }
  const LanguageInfo* from = source ? &source->info : nullptr;
  data_ = open_text({.path = config.data, .tokenizer = config.tokenizer, .holdout = config.holdout},
                    tokenizer_of(known ? &*known : from));
  info_ = known ? *std::move(known) : make_info(config, from, data_);
  choose_scored_split();
  check_lengths();
  if (config.sample_every_steps > 0) check_sample(info_, config);
  model_ = make_language_model(info_.config);
  if (source) load_state_dict(*model_, state_dict(*source->model));
  if (config.bound_every_steps > 0 && !has_layer_rates(*model_)) {
    fail_usage("bound_every_steps measures layers with memberships, which mixer ",
               info_.config.mixer, " does not have; the mixers that do are ",
               join(mixers_with_rates(/*causal=*/true), ", "), ".");
  }
}

void LanguageTask::choose_scored_split() {
  scored_ = data_.validation != nullptr ? data_.validation : data_.test;
  scored_split_ = data_.validation != nullptr ? "validation" : "test";
  scored_bytes_ = data_.validation != nullptr ? data_.validation_bytes : data_.test_bytes;
  if (scored_ == nullptr) {
    fail_usage("'", config_.data, "' has no validation or test text; set holdout above 0.");
  }
}

void LanguageTask::check_lengths() const {
  if (data_.train == nullptr) fail_data("'", config_.data, "' has no text to train on.");
  const auto check = [&](const TokenSource& source, const char* use) {
    if (source.size() > info_.config.block) return;
    fail_usage("'", config_.data, "' has ", source.size(), " tokens to ", use,
               " but the model's block is ", info_.config.block,
               "; set block below that, or give more text.");
  };
  check(*data_.train, "train on");
  check(*scored_, "score");
}

std::vector<ParamGroup> LanguageTask::param_groups() {
  const DecayGroups groups = language_decay_groups(*model_);
  return {
      {groups.decayed.names, groups.decayed.params, config_.weight_decay},
      {groups.exempt.names, groups.exempt.params, config_.decay_all ? config_.weight_decay : 0}};
}

int64_t LanguageTask::batches_per_epoch() const {
  return std::max(config_.accumulate, data_.train->size() / samples_per_batch());
}

void LanguageTask::share_batches(const BatchShare& share, Group* group) {
  fetched_.reset();
  share_ = share;
  group_ = group;
}

void LanguageTask::check_token_parts(int64_t parts) const {
  check_language_parts(info_.config, info_.config.block, parts);
}

void LanguageTask::start_epoch(int64_t epoch, int64_t first_batch) {
  fetched_.reset();
  epoch_ = epoch * batches_per_epoch();
  next_ = share_.next(first_batch);
}

void LanguageTask::fetch() {
  const auto start = std::chrono::steady_clock::now();
  fetched_ = crop_batch(*data_.train, config_.batch, info_.config.block, uint64_t(config_.seed),
                        epoch_ + next_);
  next_ = share_.next(next_ + 1);
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TaskInput LanguageTask::take_input() {
  if (!fetched_) fetch();
  const auto [ids, targets] = *std::exchange(fetched_, std::nullopt);
  check_ids(info_.config, ids);
  check_targets(targets, info_.config.vocab);
  return language_input(share_, ids, targets, samples_per_batch());
}

TaskOutput LanguageTask::compute(const std::vector<Tensor>& tensors) {
  return {.loss = model_->loss(tensors[0], tensors[1], tensors[2]), .correct = {}};
}

std::optional<json> LanguageTask::evaluate(const std::atomic<bool>* stop) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(config_.precision, device_of(*model_));
  double sum = 0;
  bool stopped = false;
  for (int64_t i = rank_of(group_); i < config_.eval_batches && !stopped; i += world_of(group_)) {
    stopped = stop != nullptr && stop->load();
    if (stopped) break;
    const auto [ids, targets] = read_watched(read_guard_, [this, i] {
      return crop_batch(*scored_, config_.batch, info_.config.block, kEvaluationSeed, i);
    });
    sum += model_->loss(ids, targets).item<double>();
  }
  if (!add_up(group_, {&sum}, stopped)) return std::nullopt;
  const double loss = sum / double(config_.eval_batches);
  json metrics{{"loss", loss},
               {"perplexity", std::exp(loss)},
               {"split", scored_split_},
               {"tokens", config_.eval_batches * samples_per_batch()}};
  if (scored_bytes_ > 0) {
    metrics["bits_per_byte"] =
        loss / std::numbers::ln2 * double(scored_->size()) / double(scored_bytes_);
  }
  return metrics;
}

std::string LanguageTask::sample(int64_t step) {
  const PrecisionScope precision(config_.precision, device_of(*model_));
  return sample_text(*model_, *info_.tokenizer,
                     {.prompt = config_.sample_prompt,
                      .tokens = config_.sample_tokens,
                      .temperature = config_.sample_temperature,
                      .seed = uint64_t(config_.seed),
                      .stream = uint64_t(step)});
}

json LanguageTask::measure_bound() {
  const torch::NoGradGuard no_grad;
  const auto ids = crop_batch(*scored_, kBoundCrops, info_.config.block, kEvaluationSeed, 0).first;
  LanguageTrace trace;
  model_->hidden(ids, nullptr, &trace);
  return {{"samples", kBoundCrops}, {"layers", to_json(layer_rates(*model_, trace.blocks))}};
}

json LanguageTask::model_description() const {
  return to_json(info_);
}

std::map<std::string, std::string> LanguageTask::model_metadata() const {
  return to_metadata(info_);
}

}  // namespace tost
