// Batches of images for training and evaluation, which worker threads prepare in advance.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tost/data/augment.h"
#include "tost/data/batch_share.h"
#include "tost/data/prefetch.h"
#include "tost/io/dataset.h"
#include "tost/io/image_ops.h"
#include "tost/io/preprocess.h"
#include "tost/torch.h"

namespace tost {

// The order of the pictures in an epoch.
struct SamplerConfig {
  bool shuffle = false;
  uint64_t seed = 0;
  // Repeated augmentation: every picture of the shuffled order occurs `repeats` times in a row. As
  // in the official code, the length of an epoch is the data set's size, rounded down to a multiple
  // of 256 unless smaller. An epoch thus contains about 1/repeats of the pictures.
  int64_t repeats = 1;
};

// The indices of the data set in the order of epoch `epoch`, a function of the arguments.
std::vector<int64_t> epoch_order(int64_t size, const SamplerConfig& config, int64_t epoch);

// The length of epoch_order(), without computing the order.
int64_t epoch_length(int64_t size, const SamplerConfig& config);

struct LoaderConfig {
  int64_t batch_size = 64;
  // With `train`, pictures are shuffled, augmented and mixed, and unreadable ones are replaced.
  // Without `train`, the order is that of the data, there is no augmentation, and an unreadable
  // picture is a data Error.
  bool train = false;
  bool drop_last = false;  // leave out a last batch that is not full, unless it is the only one
  uint64_t seed = 0;
  int64_t workers = 1;   // threads; 0: batches are made inside next()
  int64_t prefetch = 4;  // batches made ahead, at most
  int64_t repeats = 1;   // repeated augmentation, see SamplerConfig; training only
  // The batches that this process makes. Rows are not divided here, because mixing needs all rows
  // of a batch.
  BatchShare share = {};
  // The largest number of different unreadable pictures that are replaced in training; one more is
  // an Error.
  int64_t max_unreadable = 100;
  Preprocess preprocess = {};
  AugmentConfig augment = {};
  MixConfig mix = {};  // training only
  // A function for evaluation only, applied to the resized picture before normalisation.
  Corruption corruption = {};
};

struct Unreadable {
  int64_t sample;       // index in the data set
  std::string message;  // names the file and its error
};

struct Batch {
  torch::Tensor images;          // [B, C, S, S] float32, normalised
  torch::Tensor labels;          // [B] int64, before mixing
  torch::Tensor targets;         // [B, K] float32, rows sum to 1; undefined where mixing is off
  int64_t index = 0;             // its position in the epoch
  std::vector<int64_t> samples;  // the pictures' indices in the data set
  std::vector<Unreadable> unreadable;  // pictures that were replaced
};

// Makes one batch from its position in an epoch, on the threads of ImageLoader.
class BatchMaker {
 public:
  // Throws a usage Error for an impossible config, a data Error for an empty data set.
  BatchMaker(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config);

  int64_t images_per_epoch() const;
  int64_t batches_per_epoch() const;
  std::vector<int64_t> order(int64_t epoch) const;
  // Thread-safe. `order` is order(epoch).
  Batch make(const std::vector<int64_t>& order, int64_t epoch, int64_t index) const;

  const LoaderConfig& config() const { return config_; }
  const ImageDataset& dataset() const { return *dataset_; }

 private:
  SamplerConfig sampler() const;
  void fill(Batch& batch, int64_t slot, int64_t sample, Random& random) const;
  Image read_training_image(Batch& batch, int64_t& sample, Random& random) const;

  std::shared_ptr<const ImageDataset> dataset_;
  LoaderConfig config_;
  Augmenter augment_;
  Normalizer normalize_;
};

// Batches depend only on (data set, config, epoch, batch index), not on the number of workers, the
// prefetch depth or timing. Must be used from one thread. The destructor and start_epoch may be
// called at any time.
class ImageLoader {
 public:
  // Throws as BatchMaker's constructor.
  ImageLoader(std::shared_ptr<const ImageDataset> dataset, LoaderConfig config);
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  // Sets the share of batches from the next start_epoch() on.
  void set_share(const BatchShare& share);
  // Begins an epoch at any batch; the same batches follow as in a whole epoch.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);
  // The next batch, or nothing at the end of the epoch. Starts epoch 0 if none was started. Throws
  // errors of workers in the order of batches; an error ends the epoch.
  std::optional<Batch> next();

  // Over all processes.
  int64_t batches_per_epoch() const { return maker_.batches_per_epoch(); }
  int64_t images_per_epoch() const { return maker_.images_per_epoch(); }
  // The time in seconds that callers of next() have waited.
  double wait_seconds() const;
  // The number of different unreadable pictures that were replaced so far, and their errors.
  int64_t unreadable() const { return std::ssize(messages_); }
  const std::vector<std::string>& unreadable_messages() const { return messages_; }

  const LoaderConfig& config() const { return maker_.config(); }
  const ImageDataset& dataset() const { return maker_.dataset(); }

 private:
  void end_epoch();
  void count_unreadable(const Batch& batch);

  const BatchMaker maker_;
  BatchShare share_;
  bool started_ = false;  // an epoch, at some time
  double waited_ = 0;     // in epochs that are over
  std::set<int64_t> bad_samples_;
  std::vector<std::string> messages_;
  std::unique_ptr<Prefetch<Batch>> feed_;  // of the epoch; last: its threads use maker_
};

}  // namespace tost
