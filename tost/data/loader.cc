#include "tost/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/thread.h"
#include "tost/data/batch_maker.h"

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

}  // namespace tost
