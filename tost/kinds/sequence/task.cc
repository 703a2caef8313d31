#include "tost/kinds/sequence/task.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/nn/metrics.h"
#include "tost/nn/module_device.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/train/shared_step.h"

namespace tost {
namespace {

using nlohmann::json;

int64_t longest(const SequenceDataset& dataset) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) tokens = std::max(tokens, dataset.length(i));
  return tokens;
}

SequenceConfig fine_tuned_config(const SequenceTrainConfig& config, const SequenceConfig& from) {
  check_same_mixer(config.from, from.mixer, config.mixer);
  const SequenceConfig changed = changed_sequence_config(config, from);
  const json before = to_json(from), after = to_json(changed);
  for (const char* key :
       {"vocab", "pairs", "dim", "depth", "heads", "mlp", "mlp_hidden", "qkv_bias", "positions",
        "pool", "hybrid_every", "hybrid_mixer", "max_length"}) {
    if (before[key] == after[key]) continue;
    // Allows another max_length, because a model without a table of positions has no limit.
    if (std::string_view(key) == "max_length" && from.positions != "learned") continue;
    fail_usage("'", config.from, "' was trained with ", key, " ", json_text(before[key]),
               " and cannot continue with ", json_text(after[key]), "; leave the setting out.");
  }
  return changed;
}

// Sets the options that follow from the data; those in model_options must fit the data.
void fit_to_data(const SequenceTrainConfig& config, const SequenceDataset& train,
                 SequenceConfig& model) {
  const SequenceCoding coding = train.coding();
  const json& options = config.model_options;
  if (config.from.empty() && !options.contains("vocab")) model.vocab = coding.vocab;
  if (config.from.empty() && !options.contains("pairs")) model.pairs = coding.pairs;
  if (!options.contains("classes")) model.classes = int64_t(train.classes().size());
  if (model.vocab < coding.vocab) {
    fail_usage("The model has ", model.vocab, " tokens but '", config.data, "' uses ", coding.vocab,
               "; raise vocab in model_options or leave it out.");
  }
  if (model.pairs != coding.pairs) {
    fail_usage("The model reads ", model.pairs ? "pairs" : "single sequences", " but '",
               config.data, "' holds ", coding.pairs ? "pairs" : "single sequences", ".");
  }
  if (model.classes != int64_t(train.classes().size())) {
    fail_usage("model_options asks for ", model.classes, " classes but the data has ",
               train.classes().size(), ".");
  }
}

SequenceInfo make_info(const SequenceTrainConfig& config, const SequenceInfo* from,
                       const SequenceDataset& train) {
  SequenceInfo info;
  info.coding = train.coding();
  info.cut = config.max_length;
  info.classes = train.classes();
  info.config = from != nullptr ? fine_tuned_config(config, from->config) : sequence_config(config);
  if (from != nullptr && from->coding != info.coding) {
    fail_usage("'", config.from, "' reads ", from->coding.kind, " but '", config.data, "' holds ",
               info.coding.kind, "; fine-tune it on data of its kind.");
  }
  fit_to_data(config, train, info.config);
  validate(info.config);
  info.training = {{"data", std::filesystem::path(config.data).filename().string()},
                   {"recipe", config.recipe},
                   {"sequences_per_step", config.batch * config.accumulate}};
  return info;
}

// The lengths; undefined if there is no padding.
torch::Tensor needed_lengths(const torch::Tensor& ids, const torch::Tensor& lengths) {
  if (!lengths.defined() || lengths.eq(ids.size(1)).all().item<bool>()) return {};
  return lengths;
}

// Selects this process's tokens, and their valid lengths; padding makes all parts equal.
void take_tokens(const BatchShare& share, torch::Tensor& ids, torch::Tensor& lengths) {
  if (share.token_parts == 1 || !ids.defined()) return;
  const int64_t tokens = ids.size(1), part = (tokens + share.token_parts - 1) / share.token_parts;
  const int64_t padding = part * share.token_parts - tokens;
  if (padding > 0 && !lengths.defined()) lengths = torch::full({ids.size(0)}, tokens);
  ids = tokens_of(share, torch::constant_pad_nd(ids, {0, padding}));
  if (lengths.defined()) lengths = (lengths - share.token_part * part).clamp(0, part);
}

}  // namespace

void check_training_memory(const SequenceConfig& config, int64_t batch, int64_t tokens,
                           int64_t available) {
  const int64_t needed = sequence_training_bytes(config, batch, tokens);
  if (available <= 0 || needed <= available) return;
  fail_usage("Training on batches of ", batch, " sequences of ", human_number(tokens),
             " tokens would take about ", human_bytes(needed), " of memory and the machine has ",
             human_bytes(available),
             " free; make batch smaller (accumulate makes up for it), cut the sequences with "
             "max_length, or take a smaller model.");
}

SequenceTask::SequenceTask(const SequenceTrainConfig& config, std::optional<SequenceInfo> known,
                           bool has_checkpoint)
    : ModelTask(config) {
  if (config.bound_every_steps > 0) {
    fail_usage("bound_every_steps measures image and language models; leave it out.");
  }
  open_data();
  std::optional<LoadedSequence> source;
  if (!config.from.empty() && !(known && has_checkpoint)) source = load_sequence_file(config.from);
  if (known) {
    info_ = *std::move(known);
    check_sequence_data(info_, *train_, config.data);
  } else {
    info_ = make_info(config, source ? &source->info : nullptr, *train_);
  }
  check_lengths();
  model_ = make_sequence_classifier(info_.config);
  if (source) take_weights(*source);
}

void SequenceTask::open_data() {
  const SequenceSpec spec = sequence_spec(config_);
  train_ = open_sequence_dataset(spec, "train");
  const auto splits = sequence_dataset_splits(spec);
  const auto has = [&](const char* split) {
    return std::find(splits.begin(), splits.end(), split) != splits.end();
  };
  if (!has("validation") && !has("test")) {
    fail_usage("'", config_.data, "' has no validation or test sequences; set holdout above 0.");
  }
  scored_split_ = has("validation") ? "validation" : "test";
  scored_ = open_sequence_dataset(spec, scored_split_);
}

void SequenceTask::check_lengths() const {
  const int64_t tokens = longest(*train_), most = std::max(tokens, longest(*scored_));
  const SequenceConfig& model = info_.config;
  if (model.positions == "learned" && most > model.max_length) {
    const std::string more = config_.from.empty()
                                 ? cat(", or give the model more with max_length ", most,
                                       " or none with positions sinusoidal.")
                                 : cat(", or start from a model without learned positions.");
    fail_usage("'", config_.data, "' has sequences of up to ", human_number(most),
               " tokens but the model has ", human_number(model.max_length),
               " learned positions; cut them with max_length ", model.max_length, more);
  }
  const int64_t here = (tokens + config_.sequence_parallel - 1) / config_.sequence_parallel;
  check_training_memory(model, config_.batch, here, room_on(device_from_name(config_.device)));
}

// Loads the weights of the source file, with a new head if the classes are different.
void SequenceTask::take_weights(const LoadedSequence& source) {
  StateDict weights = state_dict(*source.model);
  if (source.info.classes != info_.classes) {
    for (const auto& [name, fresh] : state_dict(*model_)) {
      if (starts_with(name, "head.")) weights[name] = fresh;
    }
    messages_.push_back(cat("The head is new: '", config_.from, "' has other classes (",
                            source.info.classes.size(), ") than the data has (",
                            info_.classes.size(), ")."));
  }
  load_state_dict(*model_, weights);
}

void SequenceTask::check_token_parts(int64_t parts) const {
  const SequenceConfig& model = info_.config;
  const auto able = split_mixer_names(/*causal=*/false);
  check_split_mixer(able, model.mixer);
  if (model.hybrid_every > 0) check_split_mixer(able, model.hybrid_mixer);
  if (model.positions == "learned" && model.max_length % parts != 0) {
    fail_usage("The ", model.max_length, " learned positions cannot be divided into ", parts,
               " equal parts; choose a max_length that sequence_parallel divides.");
  }
}

void SequenceTask::start_epoch(int64_t epoch, int64_t first_batch) {
  fetched_.reset();
  waited_ = wait_seconds();
  const SequenceOrder order{
      .shuffle = true, .length_groups = config_.length_groups, .seed = uint64_t(config_.seed)};
  feed_.reset();
  const auto all = sequence_batches(*train_, config_.batch, order, epoch, /*drop_last=*/true);
  std::vector<std::vector<int64_t>> local;
  for (int64_t i = share_.next(first_batch); i < std::ssize(all); i = share_.next(i + 1)) {
    local.push_back(all[size_t(i)]);
  }
  feed_ = std::make_unique<SequenceFeed>(train_, std::move(local), /*first=*/0);
}

double SequenceTask::wait_seconds() const {
  return waited_ + (feed_ == nullptr ? 0 : feed_->wait_seconds());
}

void SequenceTask::fetch() {
  fetched_ = feed_->next();
  if (!fetched_)
    fail_data("The training data ended before its epoch did; was it changed while training?");
}

TaskInput SequenceTask::take_input() {
  const SequenceBatch batch = take_fetched();
  check_sequence_input(info_.config, {batch.ids, batch.lengths});
  if (batch.second.defined()) {
    check_sequence_input(info_.config, {batch.second, batch.second_lengths});
  }
  return sequence_input(share_, batch);
}

TaskOutput SequenceTask::compute(const std::vector<torch::Tensor>& t) {
  const SequenceBatch batch{t[0], t[1], t[2], t[3], t[4]};
  const torch::Tensor logits = forward_batch(*model_, batch);
  return {.loss = classification_loss(logits, batch.labels),
          .correct = count_correct(logits.detach(), batch.labels, {})};
}

std::optional<json> SequenceTask::evaluate(const std::atomic<bool>* stop) {
  const auto result = tost::evaluate(*model_, *scored_,
                                     {.batch = config_.eval_batch,
                                      .precision = config_.precision,
                                      .stop = stop,
                                      .progress = {},
                                      .read_guard = read_guard_,
                                      .group = group_});
  if (!result) return std::nullopt;
  json metrics = to_json(*result);
  metrics["split"] = scored_split_;
  return metrics;
}

std::vector<std::string> SequenceTask::take_messages() {
  return std::exchange(messages_, {});
}

TaskInput sequence_input(const BatchShare& share, const SequenceBatch& batch) {
  const int64_t all = batch.labels.size(0), rows = share.rows(all);
  std::vector<torch::Tensor> local =
      rows_of(share, {batch.ids, needed_lengths(batch.ids, batch.lengths), batch.second,
                      needed_lengths(batch.second, batch.second_lengths), batch.labels});
  take_tokens(share, local[0], local[1]);
  take_tokens(share, local[2], local[3]);
  return {local, rows, double(rows) / double(all * share.token_parts)};
}

}  // namespace tost
