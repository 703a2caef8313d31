#include "tost/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/thread.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// One mutex guards all that is shared; batches are made outside of it. An epoch has a generation
// number, so that what a worker was making when the epoch was left is dropped on arrival.
struct ImageLoader::Impl {
  struct Outcome {
    Batch batch;
    std::exception_ptr error;
  };

  Impl(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config)
      : maker(std::move(dataset), std::move(config)), share(maker.config().share) {
    try {
      for (int64_t i = 0; i < maker.config().workers; ++i) {
        threads.push_back(start_thread([this] { work(); }));
      }
    } catch (...) {
      end_threads();
      throw;
    }
  }

  ~Impl() { end_threads(); }

  void end_threads() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    may_work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void start(int64_t new_epoch, int64_t first_batch) {
    auto new_order = std::make_shared<const std::vector<int64_t>>(maker.order(new_epoch));
    {
      std::lock_guard lock(mutex);
      ++generation;
      epoch = new_epoch;
      order = std::move(new_order);
      ready.clear();
      end = maker.batches_per_epoch();
      next_made = next_taken = following(first_batch);
    }
    may_work.notify_all();
  }

  // Of this process's batches.
  int64_t following(int64_t batch) const { return std::min(share.next(batch), end); }

  bool has_work() const {
    const int64_t apart = std::min(share.world, share.per_step);  // batches of one process
    return next_made < end && next_made < next_taken + apart * maker.config().prefetch;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      may_work.wait(lock, [this] { return stopping || has_work(); });
      if (stopping) return;
      const int64_t index = next_made;
      next_made = following(index + 1);
      const int64_t my_generation = generation;
      const int64_t my_epoch = epoch;
      const auto my_order = order;
      lock.unlock();
      Outcome outcome = make(*my_order, my_epoch, index);
      lock.lock();
      if (my_generation == generation) {
        ready.emplace(index, std::move(outcome));
        may_take.notify_one();
      }
    }
  }

  Outcome make(const std::vector<int64_t>& places, int64_t of_epoch, int64_t index) const {
    try {
      return {maker.make(places, of_epoch, index), nullptr};
    } catch (...) {
      return {{}, std::current_exception()};
    }
  }

  Outcome take() {
    if (threads.empty())
      return make(*order, epoch, std::exchange(next_taken, following(next_taken + 1)));
    std::unique_lock lock(mutex);
    may_take.wait(lock, [this] { return ready.contains(next_taken); });
    auto node = ready.extract(next_taken);
    next_taken = following(next_taken + 1);
    lock.unlock();
    may_work.notify_one();
    return std::move(node.mapped());
  }

  void end_epoch() {
    std::lock_guard lock(mutex);
    end = next_taken = next_made = 0;
    ++generation;
    ready.clear();
  }

  // Counted here, in the order of the batches, so that the limit is met at the same batch whatever
  // the workers do.
  void count_unreadable(const Batch& batch) {
    for (const Unreadable& bad : batch.unreadable) {
      if (!bad_samples.insert(bad.sample).second) continue;
      messages.push_back(bad.message);
      const int64_t limit = maker.config().max_unreadable;
      if (static_cast<int64_t>(bad_samples.size()) > limit) {
        end_epoch();
        fail_data("More than ", limit,
                  " training pictures cannot be read; the last one: ", bad.message);
      }
    }
  }

  const BatchMaker maker;
  BatchShare share;
  std::mutex mutex;
  std::condition_variable may_work;
  std::condition_variable may_take;
  bool stopping = false;
  int64_t generation = 0;
  int64_t epoch = -1;
  std::shared_ptr<const std::vector<int64_t>> order;
  int64_t next_made = 0;
  int64_t next_taken = 0;
  int64_t end = 0;
  std::map<int64_t, Outcome> ready;

  double waited = 0;
  std::set<int64_t> bad_samples;
  std::vector<std::string> messages;
  std::vector<std::thread> threads;  // last: they use everything above
};

ImageLoader::ImageLoader(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(config))) {}

ImageLoader::~ImageLoader() = default;

void ImageLoader::set_share(const BatchShare& share) {
  impl_->end_epoch();
  const std::lock_guard lock(impl_->mutex);
  impl_->share = share;
}

void ImageLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  if (epoch < 0 || first_batch < 0) {
    fail_usage("Epoch ", epoch, ", batch ", first_batch, " does not exist: both count from 0.");
  }
  impl_->start(epoch, first_batch);
}

std::optional<Batch> ImageLoader::next() {
  if (impl_->epoch < 0) start_epoch(0);
  if (impl_->next_taken >= impl_->end) return std::nullopt;
  const auto begin = Clock::now();
  Impl::Outcome outcome = impl_->take();
  impl_->waited += std::chrono::duration<double>(Clock::now() - begin).count();
  if (outcome.error) {
    impl_->end_epoch();
    std::rethrow_exception(outcome.error);
  }
  impl_->count_unreadable(outcome.batch);
  return std::move(outcome.batch);
}

int64_t ImageLoader::batches_per_epoch() const {
  return impl_->maker.batches_per_epoch();
}
int64_t ImageLoader::images_per_epoch() const {
  return impl_->maker.images_per_epoch();
}
double ImageLoader::wait_seconds() const {
  return impl_->waited;
}
int64_t ImageLoader::unreadable() const {
  return static_cast<int64_t>(impl_->messages.size());
}

const std::vector<std::string>& ImageLoader::unreadable_messages() const {
  return impl_->messages;
}

const LoaderConfig& ImageLoader::config() const {
  return impl_->maker.config();
}
const ImageDataset& ImageLoader::dataset() const {
  return impl_->maker.dataset();
}

namespace {

constexpr uint64_t kSampleStream = 0x73616d706c65;  // "sample"
constexpr uint64_t kMixStream = 0x6d6978;           // "mix"
// Random replacements tried for one unreadable picture before giving up.
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
    // The epoch and the place in it seed a picture's randomness, whichever thread is at work.
    Random random(config_.seed ^ kSampleStream, static_cast<uint64_t>(epoch),
                  static_cast<uint64_t>(begin + i));
    fill(batch, i, order[static_cast<size_t>(begin + i)], random);
  }
  if (config_.train && config_.mix.active()) {
    Random random(config_.seed ^ kMixStream, static_cast<uint64_t>(epoch),
                  static_cast<uint64_t>(index));
    const double own = mix_batch(config_.mix, random, {count, p.channels, p.size, p.size},
                                 batch.images.data_ptr<float>());
    const auto classes = static_cast<int64_t>(dataset_->classes().size());
    const int64_t* labels = batch.labels.data_ptr<int64_t>();
    batch.targets = torch::empty({count, classes}, torch::kFloat32);
    soft_targets({labels, labels + count}, classes, own, config_.mix.label_smoothing,
                 batch.targets.data_ptr<float>());
  }
  return batch;
}

void BatchMaker::fill(Batch& batch, int64_t slot, int64_t sample, Random& random) const {
  const Preprocess& p = config_.preprocess;
  float* to = batch.images.data_ptr<float>() + slot * p.channels * p.size * p.size;
  if (config_.train) {
    PartPlan plan;
    ReducedImage picture = read_training_image(batch, sample, random, plan);
    augment_.plans() ? augment_(std::move(picture), plan, random, to)
                     : augment_(picture.image, random, to);
  } else {
    const Image fitted = fit_image(dataset_->image(sample), p);
    normalize_(corrupt(fitted, config_.corruption, config_.seed, sample), to);
  }
  batch.labels.data_ptr<int64_t>()[slot] = dataset_->label(sample);
  batch.samples[static_cast<size_t>(slot)] = sample;
}

// An unreadable picture gives its place to a random other one, so that batches keep their size.
// Whether its size could be read changes nothing for those that follow.
ReducedImage BatchMaker::read_training_image(Batch& batch, int64_t& sample, Random& random,
                                             PartPlan& plan) const {
  for (int attempt = 0; attempt < kReplacements; ++attempt) {
    const Random before = random;
    try {
      return dataset_->reduced_image(sample, [&](int64_t width, int64_t height) {
        if (augment_.plans()) plan = augment_.plan(width, height, random);
        return plan.reduction;
      });
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      batch.unreadable.push_back({sample, error.what()});
      random = before;
      plan = {};
    }
    sample = random.below(dataset_->size());
  }
  fail_data("None of ", kReplacements,
            " random pictures could be read; the first problem: ", batch.unreadable.back().message);
}

namespace {

constexpr int64_t kRepeatedMultiple = 256;
constexpr uint64_t kOrderStream = 0x6f72646572;  // "order"

}  // namespace

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
