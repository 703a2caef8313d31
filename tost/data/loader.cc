#include "tost/data/loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {

ImageLoader::ImageLoader(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config)
    : maker_(std::move(dataset), std::move(config)), share_(maker_.config().share) {}

void ImageLoader::set_share(const BatchShare& share) {
  end_epoch();
  share_ = share;
}

void ImageLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  if (epoch < 0 || first_batch < 0) {
    fail_usage("Epoch ", epoch, ", batch ", first_batch, " does not exist: both count from 0.");
  }
  end_epoch();
  started_ = true;
  std::vector<int64_t> local;
  for (int64_t batch = share_.next(first_batch); batch < batches_per_epoch();
       batch = share_.next(batch + 1)) {
    local.push_back(batch);
  }
  feed_ =
      std::make_unique<Prefetch<Batch>>(std::move(local), config().workers, config().prefetch,
                                        [this, epoch, order = maker_.order(epoch)](int64_t batch) {
                                          return maker_.make(order, epoch, batch);
                                        });
}

void ImageLoader::end_epoch() {
  if (feed_) waited_ += feed_->wait_seconds();
  feed_.reset();
}

std::optional<Batch> ImageLoader::next() {
  if (!started_) start_epoch(0);
  if (!feed_) return std::nullopt;
  try {
    std::optional<Batch> batch = feed_->next();
    if (batch) count_unreadable(*batch);
    return batch;
  } catch (...) {
    end_epoch();
    throw;
  }
}

// Counts unreadable pictures in the order of batches, so that the limit is reached at the same
// batch for any number of workers.
void ImageLoader::count_unreadable(const Batch& batch) {
  for (const Unreadable& bad : batch.unreadable) {
    if (!bad_samples_.insert(bad.sample).second) continue;
    messages_.push_back(bad.message);
    if (std::ssize(bad_samples_) > config().max_unreadable) {
      fail_data("More than ", config().max_unreadable,
                " training pictures cannot be read; the last one: ", bad.message);
    }
  }
}

double ImageLoader::wait_seconds() const {
  return waited_ + (feed_ ? feed_->wait_seconds() : 0);
}

namespace {

constexpr uint64_t kSampleStream = 0x73616d706c65;  // "sample"
constexpr uint64_t kMixStream = 0x6d6978;           // "mix"
// The number of random replacements to try for one unreadable picture.
constexpr int kReplacements = 20;

LoaderConfig checked(LoaderConfig config, const ImageDataset& dataset) {
  check_preprocess(config.preprocess);
  check_augment(config.augment);
  check_mix(config.mix);
  if (config.corruption.active()) check_corruption(config.corruption);
  if (config.batch_size < 1)
    fail_usage("The batch size must be at least 1, not ", config.batch_size, ".");
  if (config.workers < 0 || config.workers > 256) {
    fail_usage("The number of loader workers is 0 to 256, not ", config.workers, ".");
  }
  if (config.prefetch < 1)
    fail_usage("The loader must prefetch at least 1 batch, not ", config.prefetch, ".");
  if (config.repeats < 1)
    fail_usage("Augmentation repeats must be at least 1, not ", config.repeats, ".");
  const int64_t side = config.preprocess.size;
  checked_mul(config.batch_size, config.preprocess.channels * side * side * 4, "A batch of images");
  if (dataset.size() < 1) fail_data("The data set holds no picture to load.");
  return config;
}

constexpr int64_t kRepeatedMultiple = 256;
constexpr uint64_t kOrderStream = 0x6f72646572;  // "order"

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config)
    : dataset_(std::move(dataset)),
      config_(checked(std::move(config), *dataset_)),
      augment_(config_.preprocess, config_.augment),
      normalize_(config_.preprocess) {}

SamplerConfig BatchMaker::sampler() const {
  return {config_.train, config_.seed, config_.train ? config_.repeats : 1};
}

int64_t BatchMaker::images_per_epoch() const {
  const int64_t images = epoch_length(dataset_->size(), sampler());
  if (!config_.drop_last || images < config_.batch_size) return images;
  return images / config_.batch_size * config_.batch_size;
}

int64_t BatchMaker::batches_per_epoch() const {
  return (images_per_epoch() + config_.batch_size - 1) / config_.batch_size;
}

std::vector<int64_t> BatchMaker::order(int64_t epoch) const {
  std::vector<int64_t> order = epoch_order(dataset_->size(), sampler(), epoch);
  order.resize(static_cast<size_t>(images_per_epoch()));
  return order;
}

Batch BatchMaker::make(const std::vector<int64_t>& order, int64_t epoch, int64_t index) const {
  const int64_t begin = index * config_.batch_size;
  const int64_t end = std::min(begin + config_.batch_size, static_cast<int64_t>(order.size()));
  const int64_t count = end - begin;
  const Preprocess& p = config_.preprocess;
  Batch batch;
  batch.index = index;
  batch.images = torch::empty({count, p.channels, p.size, p.size}, torch::kFloat32);
  batch.labels = torch::empty({count}, torch::kInt64);
  batch.samples.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    // Seeds a picture's random numbers by epoch and position, not by thread.
    Random random(config_.seed ^ kSampleStream, static_cast<uint64_t>(epoch),
                  static_cast<uint64_t>(begin + i));
    fill(batch, i, order[static_cast<size_t>(begin + i)], random);
  }
  if (config_.train && config_.mix.active()) {
    Random random(config_.seed ^ kMixStream, static_cast<uint64_t>(epoch),
                  static_cast<uint64_t>(index));
    const double label_weight = mix_batch(config_.mix, random, {count, p.channels, p.size, p.size},
                                          batch.images.data_ptr<float>());
    const auto classes = static_cast<int64_t>(dataset_->classes().size());
    const int64_t* labels = batch.labels.data_ptr<int64_t>();
    batch.targets = torch::empty({count, classes}, torch::kFloat32);
    soft_targets({labels, labels + count}, classes, label_weight, config_.mix.label_smoothing,
                 batch.targets.data_ptr<float>());
  }
  return batch;
}

void BatchMaker::fill(Batch& batch, int64_t slot, int64_t sample, Random& random) const {
  const Preprocess& p = config_.preprocess;
  float* to = batch.images.data_ptr<float>() + slot * p.channels * p.size * p.size;
  if (config_.train) {
    augment_(read_training_image(batch, sample, random), random, to);
  } else {
    const Image fitted = fit_image(dataset_->image(sample), p);
    normalize_(corrupt(fitted, config_.corruption, config_.seed, sample), to);
  }
  batch.labels.data_ptr<int64_t>()[slot] = dataset_->label(sample);
  batch.samples[static_cast<size_t>(slot)] = sample;
}

// Replaces an unreadable picture by another random one, so that batches have a constant size.
Image BatchMaker::read_training_image(Batch& batch, int64_t& sample, Random& random) const {
  for (int attempt = 0; attempt < kReplacements; ++attempt) {
    try {
      return dataset_->image(sample);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      batch.unreadable.push_back({sample, error.what()});
    }
    sample = random.below(dataset_->size());
  }
  fail_data("None of ", kReplacements,
            " random pictures could be read; the first problem: ", batch.unreadable.back().message);
}

int64_t epoch_length(int64_t size, const SamplerConfig& config) {
  if (config.repeats <= 1) return size;
  return std::max(size / kRepeatedMultiple * kRepeatedMultiple, std::min(size, kRepeatedMultiple));
}

std::vector<int64_t> epoch_order(int64_t size, const SamplerConfig& config, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (config.shuffle) {
    Random random(config.seed, kOrderStream, static_cast<uint64_t>(epoch));
    shuffle(order.data(), size, random);
  }
  std::vector<int64_t> places(static_cast<size_t>(epoch_length(size, config)));
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = order[i / static_cast<size_t>(std::max<int64_t>(config.repeats, 1))];
  }
  return places;
}

}  // namespace tost
