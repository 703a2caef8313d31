#include "tost/kinds/language/task.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/comm/sums.h"
#include "tost/data/crop_batch.h"
#include "tost/engine/generate.h"
#include "tost/engine/language_text.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/answer_eval.h"
#include "tost/nn/cross_entropy.h"
#include "tost/nn/layer_rates.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"

namespace tost {

namespace {

using nlohmann::json;
using torch::Tensor;

// The seed of evaluation, which draws the same crops in every run.
constexpr uint64_t kEvaluationSeed = 0x5eed'e7a1;

// The number of passages whose layers are measured: far fewer than in an evaluation.
constexpr int64_t kBoundCrops = 8;

// The rows of the token table: 50,304 for GPT-2's 50,257 ids, as in the official models, else the
// vocabulary's size.
int64_t rows_for(int64_t vocabulary) {
  constexpr int64_t kGpt2 = 50257, kGpt2Rows = 50304;
  return vocabulary == kGpt2 ? kGpt2Rows : vocabulary;
}

template <class Config>
LanguageConfig fine_tuned_config(const Config& config, const LanguageConfig& from) {
  check_same_mixer(config.from, from.mixer, config.mixer);
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

struct SampleRequest {
  std::string prompt;
  int64_t tokens = 0;
  double temperature = 1;  // 0: always the most likely token
  uint64_t seed = 0, stream = 0;
};

// Replaces bytes that are not UTF-8, so that the text can be shown and logged.
std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json_text(json(text)));
}

// The prompt and the model's continuation, as valid UTF-8. A function of model and request; torch's
// generators do not change. Beyond max_context() the model continues from the last half of its
// context.
std::string sample_text(LanguageModel& model, const Tokenizer& tokenizer,
                        const SampleRequest& request) {
  const std::vector<int32_t> prompt = tokenizer.encode(request.prompt);
  GenerateConfig config;
  config.sampling.temperature = request.temperature;
  config.max_tokens = request.tokens;
  config.ignore_end = true;
  config.past_block = "slide";
  config.seed = Random(request.seed, request.stream).next();
  const auto result = generate(model, tokenizer, {{prompt.begin(), prompt.end()}}, config);
  return valid_utf8(tokenizer.decode(prompt)) + result.texts[0].text;
}

// Throws a usage Error if samples cannot be written: without a tokenizer, or for a prompt that is
// empty or cannot be encoded.
void check_sample(const LanguageInfo& info, const LanguageTrainConfig& config) {
  if (info.tokenizer == nullptr) {
    fail_usage("'", config.data,
               "' comes without a tokenizer, so samples cannot be written; set tokenizer, or "
               "sample_every_steps to 0.");
  }
  try {
    if (!info.tokenizer->encode(config.sample_prompt).empty()) return;
  } catch (const Error& error) {
    fail_usage("sample_prompt cannot be used: ", error.what());
  }
  fail_usage("sample_prompt is empty; give at least one token, or set sample_every_steps to 0.");
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

// Throws a usage Error if texts of `tokens` tokens cannot be split into equal parts, or the mixers
// do not support it.
void check_language_parts(const LanguageConfig& c, int64_t tokens, int64_t parts) {
  check_predicts(c, "dividing sequences");
  check_split_mixer(split_mixer_names(/*causal=*/true), c.mixer);
  if (c.hybrid_every > 0) check_split_mixer(split_mixer_names(/*causal=*/true), c.hybrid_mixer);
  if (tokens % parts != 0 || tokens / parts < c.options.conv) {
    fail_usage("A text of ", tokens, " tokens cannot be divided into ", parts, " equal parts",
               c.options.conv > 0 ? cat(" of ", c.options.conv, " tokens or more") : "",
               "; choose a block that sequence_parallel divides.");
  }
}

}  // namespace

LanguageTask::LanguageTask(const LanguageTrainConfig& config, std::optional<LanguageInfo> known,
                           bool has_checkpoint)
    : ModelTask(config) {
  std::optional<LoadedLanguage> source;
  if (!config.from.empty() && !(known && has_checkpoint)) {
    source = load_language_file(config.from, Weights::kRaw);
    // Checks that `tokenizer`, if set, names the tokenizer of the source, which is used.
    check_same_tokenizer(config.tokenizer, source->info, config.from);
  }
  const LanguageInfo* from = source ? &source->info : nullptr;
  data_ = open_text({.path = config.data, .tokenizer = config.tokenizer, .holdout = config.holdout},
                    tokenizer_of(known ? &*known : from));
  info_ = known ? *std::move(known) : make_info(config, from, data_);
  check_predicts(info_.config, "training on text");
  choose_scored_split();
  check_lengths();
  if (config.sample_every_steps > 0) check_sample(info_, config);
  model_ = make_language_model(info_.config);
  if (source) load_state_dict(*model_, state_dict(*source->model));
  check_bound_steps(/*causal=*/true);
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

int64_t LanguageTask::batches_per_epoch() const {
  return std::max(config_.accumulate, data_.train->size() / samples_per_batch());
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
  const auto [ids, targets] = take_fetched();
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
  if (!add_up(group_, {&sum}, {}, stopped)) return std::nullopt;
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

TaskInput language_input(const BatchShare& share, const Tensor& ids, const Tensor& targets,
                         int64_t samples) {
  std::vector<Tensor> local = rows_of(share, {ids, targets});
  const int64_t rows = local[0].size(0);
  for (Tensor& x : local) x = tokens_of(share, x);
  double weight = 1;
  if (share.parts() * share.token_parts > 1) {
    const auto count = [](const Tensor& t) { return t.ne(-1).sum().item<double>(); };
    weight = count(local[1]) / count(targets);
  }
  // Sets the mean over no targets to 0, because its NaN would stay NaN with weight 0.
  if (weight == 0) local[1].view({-1})[0] = 0;
  return {{local[0], local[1], LanguageModel::target_rows(local[1])},
          samples / ids.size(0) * rows,
          weight};
}

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
