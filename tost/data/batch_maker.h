// Makes one batch from its place in an epoch: the pure function behind ImageLoader.
#pragma once

#include "tost/data/loader.h"

namespace tost {

class BatchMaker {
 public:
  // Throws as ImageLoader's constructor.
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
  ReducedImage read_training_image(Batch& batch, int64_t& sample, Random& random,
                                   PartPlan& plan) const;

  std::shared_ptr<const ImageDataset> dataset_;
  LoaderConfig config_;
  Augmenter augment_;
  Normalizer normalize_;
};

}  // namespace tost
