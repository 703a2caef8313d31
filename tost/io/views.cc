#include "tost/io/views.h"

#include <cmath>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr double kDefaultShare = 0.05;
constexpr int64_t kDefaultLimit = 5'000;
constexpr uint64_t kHoldoutSeed = 20241223;  // fixed, so that no run trains on another's validation

bool has(const std::vector<std::string>& splits, const std::string& split) {
  return std::ranges::find(splits, split) != splits.end();
}

}  // namespace

SubsetDataset::SubsetDataset(std::shared_ptr<const ImageDataset> whole,
                             std::vector<int64_t> indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {}

CachedDataset::CachedDataset(std::shared_ptr<const ImageDataset> source, int64_t max_bytes)
    : source_(std::move(source)), max_bytes_(max_bytes) {
  cache_.resize(static_cast<size_t>(source_->size()));
}

std::shared_ptr<const Image> CachedDataset::find(int64_t i) const {
  std::lock_guard lock(mutex_);
  return cache_[static_cast<size_t>(i)];
}

void CachedDataset::keep(int64_t i, const Image& image) const {
  const auto bytes = static_cast<int64_t>(image.pixels.size());
  std::lock_guard lock(mutex_);
  if (cache_[static_cast<size_t>(i)] || used_bytes_ + bytes > max_bytes_) return;
  cache_[static_cast<size_t>(i)] = std::make_shared<const Image>(image);
  used_bytes_ += bytes;
}

Image CachedDataset::image(int64_t i) const {
  if (const auto cached = find(i)) return *cached;
  Image image = source_->image(i);
  keep(i, image);
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

void check_holdout(double share) {
  if (share == -1 || (share >= 0 && share < 1)) return;
  fail_usage("The held-out share lies between 0 and 1 (excluded), or is -1 for the default, not ",
             share, ".");
}

std::string checked_split(const std::string& split) {
  if (split == "val") return "validation";
  if (has(kSplits, split)) return split;
  fail_usage("Unknown split '", split, "'; use train, validation or test.",
             did_you_mean(split, kSplits));
}

std::vector<std::string> available_splits(std::vector<std::string> stored, double holdout) {
  if (holdout != 0 && has(stored, "train") && !has(stored, "validation")) {
    stored.insert(stored.begin() + 1, "validation");
  }
  return stored;
}

void check_available(const std::string& path, const std::vector<std::string>& stored,
                     double holdout, const std::string& wanted) {
  const std::vector<std::string> splits = available_splits(stored, holdout);
  if (splits.empty() || has(splits, wanted)) return;
  fail_data("'", path, "' has no ", wanted, " split; it has ", join(splits, ", "),
            wanted == "validation" && has(stored, "train")
                ? " (a held-out share of train above 0 would give one)."
                : ".");
}

}  // namespace tost
