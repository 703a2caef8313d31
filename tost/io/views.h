// Data sets made from another data set.
#pragma once

#include <algorithm>
#include <mutex>
#include <utility>

#include "tost/io/dataset.h"

namespace tost {

// A subset of a data set's pictures, in the order of `indices`.
class SubsetDataset : public ImageDataset {
 public:
  SubsetDataset(std::shared_ptr<const ImageDataset> whole, std::vector<int64_t> indices);

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  int64_t label(int64_t i) const override { return whole_->label(at(i)); }
  Image image(int64_t i) const override { return whole_->image(at(i)); }
  std::string name(int64_t i) const override { return whole_->name(at(i)); }
  bool has_mask() const override { return whole_->has_mask(); }
  Image mask(int64_t i) const override { return whole_->mask(at(i)); }
  std::string format() const override { return whole_->format(); }
  int64_t channels() const override { return whole_->channels(); }
  int64_t side() const override { return whole_->side(); }

 private:
  int64_t at(int64_t i) const { return indices_[static_cast<size_t>(i)]; }
  std::shared_ptr<const ImageDataset> whole_;
  std::vector<int64_t> indices_;
};

// Caches decoded or generated pictures (not masks) up to `max_bytes`; decodes others each time.
class CachedDataset : public ImageDataset {
 public:
  CachedDataset(std::shared_ptr<const ImageDataset> source, int64_t max_bytes);

  int64_t size() const override { return source_->size(); }
  const std::vector<std::string>& classes() const override { return source_->classes(); }
  int64_t label(int64_t i) const override { return source_->label(i); }
  Image image(int64_t i) const override;
  std::string name(int64_t i) const override { return source_->name(i); }
  bool has_mask() const override { return source_->has_mask(); }
  Image mask(int64_t i) const override { return source_->mask(i); }
  std::string format() const override { return source_->format(); }
  int64_t channels() const override { return source_->channels(); }
  int64_t side() const override { return source_->side(); }

 private:
  std::shared_ptr<const Image> find(int64_t i) const;
  void keep(int64_t i, const Image& image) const;

  std::shared_ptr<const ImageDataset> source_;
  int64_t max_bytes_;
  mutable std::mutex mutex_;
  mutable int64_t used_bytes_ = 0;
  mutable std::vector<std::shared_ptr<const Image>> cache_;
};

// The sorted indices of held-out training samples, and those of the other samples. A fixed seed
// draws the indices, so they are the same in every run. DataSpec::holdout explains `share`.
struct Holdout {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
};
Holdout split_holdout(int64_t size, double share);
// Throws a usage Error for a share that DataSpec::holdout does not allow.
void check_holdout(double share);

// The name of a split as in kSplits; "val" means validation. Throws a usage Error for another name.
std::string checked_split(const std::string& split);

// The splits of a set: those of `stored`, and validation if it can be held out.
std::vector<std::string> available_splits(std::vector<std::string> stored, double holdout);

// Throws a data Error naming the existing splits unless `wanted` is one of them. Accepts a set
// without splits, because its reader names the missing file.
void check_available(const std::string& path, const std::vector<std::string>& stored,
                     double holdout, const std::string& wanted);

// Opens the split `wanted`, which may be held out; `open` opens a split of the files.
template <class Subset, class Open>
auto open_split(const std::string& path, const std::vector<std::string>& stored, double holdout,
                const std::string& wanted, const Open& open) -> decltype(open(wanted)) {
  check_available(path, stored, holdout, wanted);
  const bool has_validation = std::ranges::find(stored, "validation") != stored.end();
  if (holdout == 0 || has_validation || wanted == "test") return open(wanted);
  auto whole = open("train");
  Holdout parts = split_holdout(whole->size(), holdout);
  return std::make_unique<Subset>(std::move(whole),
                                  std::move(wanted == "train" ? parts.train : parts.validation));
}

}  // namespace tost
