#include "tost/data/views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

constexpr double kDefaultShare = 0.05;
constexpr int64_t kDefaultLimit = 5'000;
constexpr uint64_t kHoldoutSeed = 20241223;  // fixed, so that no run trains on another's validation

}  // namespace

SubsetDataset::SubsetDataset(std::shared_ptr<const ImageDataset> whole,
                             std::vector<int64_t> indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {}

CachedDataset::CachedDataset(std::shared_ptr<const ImageDataset> source, int64_t max_bytes)
    : source_(std::move(source)), max_bytes_(max_bytes) {
  kept_.resize(static_cast<size_t>(source_->size()));
}

Image CachedDataset::image(int64_t i) const {
  std::shared_ptr<const Image> kept;
  {
    std::lock_guard lock(mutex_);
    kept = kept_[static_cast<size_t>(i)];
  }
  if (kept) return *kept;
  Image image = source_->image(i);
  const auto bytes = static_cast<int64_t>(image.pixels.size());
  std::lock_guard lock(mutex_);
  if (!kept_[static_cast<size_t>(i)] && used_bytes_ + bytes <= max_bytes_) {
    kept_[static_cast<size_t>(i)] = std::make_shared<const Image>(image);
    used_bytes_ += bytes;
  }
  return image;
}

Holdout split_holdout(int64_t size, double share) {
  const auto part = [&](double of) {
    return static_cast<int64_t>(std::llround(static_cast<double>(size) * of));
  };
  int64_t count = share < 0 ? std::min(part(kDefaultShare), kDefaultLimit) : part(share);
  if (share != 0) count = std::max<int64_t>(count, 1);
  if (count >= size) {
    fail_data("Holding ", count, " of ", size,
              " training pictures out for validation leaves none.");
  }
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(kHoldoutSeed);
  shuffle(order.data(), size, random);
  Holdout holdout;
  holdout.validation.assign(order.begin(), order.begin() + count);
  holdout.train.assign(order.begin() + count, order.end());
  std::sort(holdout.validation.begin(), holdout.validation.end());
  std::sort(holdout.train.begin(), holdout.train.end());
  return holdout;
}

}  // namespace tost
