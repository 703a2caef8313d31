#include "tost/kinds/vision/task.h"

#include <algorithm>
#include <chrono>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/metadata.h"
#include "tost/engine/picture_scores.h"
#include "tost/io/views.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/nn/layer_rates.h"
#include "tost/nn/metrics.h"
#include "tost/nn/state_dict.h"
#include "tost/train/shared_step.h"

namespace tost {
namespace {

// The side of the network's input: that of the data if the patch divides it, so that pictures are
// not resized.
int64_t input_side(const VisionTrainConfig& config, const VisionConfig& base,
                   const ImageDataset& train) {
  if (config.image_size > 0) return config.image_size;
  const bool fits =
      train.side() > 0 && (base.architecture == "linear" || train.side() % base.patch == 0);
  return fits && config.from.empty() ? train.side() : base.image_size;
}

VisionConfig make_vision_config(const VisionTrainConfig& config, VisionConfig base,
                                const ImageDataset& train) {
  const bool new_model = config.from.empty();
  base.image_size = input_side(config, base, train);
  base.classes = int64_t(train.classes().size());
  if (new_model) base.in_channels = train.channels();
  if (config.drop_path >= 0) base.drop_path = config.drop_path;
  if (!config.mixer.empty() && base.architecture != "linear") base.mixer = config.mixer;
  base = with_model_options(base, config.model_options);
  if (base.classes != int64_t(train.classes().size())) {
    fail_usage("model_options asks for ", base.classes, " classes but the data has ",
               train.classes().size(), ".");
  }
  validate(base);
  return base;
}

// Makes the description of the model. The architecture is that of `from`, the description of
// config.from, or of the preset if `from` is null. Classes, channels and side come from the data;
// mixer, image_size, drop_path and, last, model_options override other values. Mean and deviation
// are those of the data, or those of the weights' training in fine-tuning with the same channels.
// Throws a usage Error with the reason for settings that do not fit.
ModelInfo make_model_info(const VisionTrainConfig& config, const ModelInfo* from,
                          const ImageDataset& train) {
  ModelInfo source;
  if (from == nullptr) {
    source.config = vision_preset(config.model);
  } else {
    source = *from;
    check_same_mixer(config.from, source.config.mixer, config.mixer);
  }
  ModelInfo info;
  info.config = make_vision_config(config, source.config, train);
  info.classes = train.classes();
  info.preprocess = {.size = info.config.image_size,
                     .channels = info.config.in_channels,
                     .resize = config.resize,
                     .crop_ratio = config.crop_ratio,
                     .interpolation = config.interpolation,
                     .mean = source.preprocess.mean,
                     .std = source.preprocess.std};
  if (info.preprocess.mean.empty()) {
    const ChannelStats stats = channel_stats(train, info.config.in_channels);
    info.preprocess.mean = stats.mean;
    info.preprocess.std = stats.std;
  }
  return info;
}

// The number of pictures of a measurement: enough for a mean, and far fewer than in an evaluation.
constexpr int64_t kBoundPictures = 16;

}  // namespace

VisionConfig with_model_options(VisionConfig config, const nlohmann::json& options) {
  if (options.empty()) return config;
  try {
    return vision_config_from_json(merge(to_json(config), options));
  } catch (const Error& error) {
    fail_usage("model_options cannot be used: ", error.what());
  }
}

using torch::Tensor;

VisionTask::VisionTask(const VisionTrainConfig& config, std::optional<ModelInfo> known,
                       bool has_checkpoint)
    : ModelTask(config) {
  const DataSpec spec = data_spec(config);
  const std::shared_ptr<const ImageDataset> train = open_image_dataset(spec, "train");
  std::optional<LoadedModel> source;
  if (!config.from.empty() && !(known && has_checkpoint)) source = load_model_file(config.from);
  info_ =
      known ? *std::move(known) : make_model_info(config, source ? &source->info : nullptr, *train);
  check_classes(train->classes(), info_.classes, config.data);
  const auto splits = image_dataset_splits(spec);
  if (splits == std::vector<std::string>{"train"}) {
    fail_usage("'", config.data, "' has training pictures alone, and holdout 0 keeps none of them ",
               "back to validate on; set holdout above 0.");
  }
  scored_split_ = std::count(splits.begin(), splits.end(), "validation") ? "validation" : "test";
  make_loaders(train);
  model_ = make_image_classifier(info_.config);
  if (source) take_weights(*source);
  check_bound_steps(/*causal=*/false);
}

void VisionTask::make_loaders(std::shared_ptr<const ImageDataset> train) {
  LoaderConfig loader{.batch_size = config_.batch,
                      .train = true,
                      .drop_last = true,
                      .seed = uint64_t(config_.seed),
                      .workers = config_.workers,
                      .repeats = config_.repeats,
                      .max_unreadable = config_.max_unreadable,
                      .preprocess = info_.preprocess,
                      .augment = augment_config(config_),
                      .mix = mix_config(config_)};
  train_loader_ = std::make_unique<ImageLoader>(std::move(train), loader);
  loader.batch_size = config_.eval_batch;
  loader.train = loader.drop_last = false;
  loader.repeats = 1;
  loader.mix = {};
  eval_loader_ =
      std::make_unique<ImageLoader>(open_image_dataset(data_spec(config_), scored_split_), loader);
}

// Loads the weights of the source file, with a new head if the classes are different.
void VisionTask::take_weights(const LoadedModel& source) {
  StateDict weights = state_dict(*source.model);
  if (source.info.classes != info_.classes) {
    const StateDict fresh = state_dict(*model_);
    for (const char* name : {"head.weight", "head.bias"}) weights[name] = fresh.at(name);
    messages_.push_back(
        cat("The head is new: '", config_.from, "' has ", source.info.classes.size(),
            " classes, the data has ", info_.classes.size(),
            source.info.classes.size() == info_.classes.size() ? " of other names." : "."));
  }
  load_state_dict(*model_, weights);
}

void VisionTask::share_batches(const BatchShare& share, Group* group) {
  ModelTask::share_batches(share, group);
  train_loader_->set_share(share);
  eval_loader_->set_share({.per_step = share.world, .rank = share.rank, .world = share.world});
}

void VisionTask::start_epoch(int64_t epoch, int64_t first_batch) {
  fetched_.reset();
  train_loader_->start_epoch(epoch, first_batch);
}

void VisionTask::fetch() {
  fetched_ = train_loader_->next();
  if (!fetched_)
    fail_data("The training data ended before its epoch did; was it changed while training?");
}

TaskInput VisionTask::take_input() {
  const Batch batch = take_fetched();
  const std::vector<std::string>& unreadable = train_loader_->unreadable_messages();
  messages_.insert(messages_.end(), unreadable.begin() + named_, unreadable.end());
  named_ = int64_t(unreadable.size());
  const int64_t all = batch.labels.size(0), rows = share_.rows(all);
  return {rows_of(share_, {batch.images, batch.labels, batch.targets}), rows,
          double(rows) / double(all)};
}

TaskOutput VisionTask::compute(const std::vector<Tensor>& tensors) {
  const Tensor &labels = tensors[1], &targets = tensors[2];
  const Tensor logits = model_->forward(tensors[0]);
  return {.loss = classification_loss(logits, labels, targets),
          .correct = count_correct(logits.detach(), labels, targets)};
}

std::optional<nlohmann::json> VisionTask::evaluate(const std::atomic<bool>* stop) {
  EvalOptions options;
  options.precision = config_.precision;
  options.stop = stop;
  options.read_guard = read_guard_;
  options.group = group_;
  const auto start = std::chrono::steady_clock::now();
  const auto scores = tost::evaluate(*model_, *eval_loader_, options);
  if (!scores) return std::nullopt;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::json metrics = picture_scores(*scores, seconds.count());
  metrics["split"] = scored_split_;
  return metrics;
}

torch::Tensor VisionTask::bound_pictures() const {
  const std::shared_ptr<const ImageDataset> all =
      open_image_dataset(data_spec(config_), scored_split_);
  const int64_t count = std::min(kBoundPictures, all->size());
  std::vector<int64_t> spread;
  for (int64_t i = 0; i < count; ++i) spread.push_back(i * all->size() / count);
  ImageLoader loader(std::make_shared<SubsetDataset>(all, spread),
                     {.batch_size = count, .workers = 0, .preprocess = info_.preprocess});
  loader.start_epoch(0, 0);
  return loader.next()->images;
}

nlohmann::json VisionTask::measure_bound() {
  const torch::NoGradGuard no_grad;
  if (!bound_pictures_.defined()) {
    bound_pictures_ = read_watched(read_guard_, [this] { return bound_pictures(); });
  }
  VisionTrace trace;
  model_->forward_traced(bound_pictures_, trace);
  return {{"samples", bound_pictures_.size(0)},
          {"layers", to_json(layer_rates(*model_, trace.blocks))}};
}

std::vector<std::string> VisionTask::take_messages() {
  return std::exchange(messages_, {});
}

}  // namespace tost
