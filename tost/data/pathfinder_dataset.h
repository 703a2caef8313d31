// Sets of Pathfinder pictures: generated ones, the folders of the Long Range Arena's release, and
// pairs of idx files. Class 0 is "separate", 1 "connected". Free of torch.
#pragma once

#include "tost/data/dataset.h"
#include "tost/data/pathfinder.h"

namespace tost {

const std::vector<std::string>& pathfinder_classes();

// `size` pictures, number i a pure function of (rules, seed, split, i).
class GeneratedPathfinder : public ImageDataset {
 public:
  GeneratedPathfinder(const PathfinderRules& rules, uint64_t seed, const std::string& split,
                      int64_t size);

  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override;
  int64_t label(int64_t i) const override;
  Image image(int64_t i) const override;
  std::string name(int64_t i) const override;
  std::string format() const override { return "pathfinder"; }
  int64_t channels() const override { return 1; }
  int64_t side() const override { return artist_.rules().side; }

 private:
  Random random(int64_t i) const;
  PathfinderArtist artist_;
  uint64_t seed_;
  std::string split_;
  int64_t size_;
};

// Whether `folder` has the release's layout: metadata/N.npy next to imgs/.
bool is_pathfinder_archive(const std::string& folder);

// Every picture that metadata/*.npy lists, in the order of the files' numbers. In spite of their
// name these are texts, one picture a line: folder, file, number, label and more. Throws a data
// Error naming file and line for a line with fewer fields, a label other than 0 and 1, or a path
// that leaves the folder.
std::unique_ptr<ImageDataset> open_pathfinder_archive(const std::string& folder);

// Whether PREFIX-images-idx3-ubyte or the same with .gz is a file.
bool is_pathfinder_idx(const std::string& prefix);

// PREFIX-images-idx3-ubyte[.gz] and PREFIX-labels-idx1-ubyte[.gz]. Throws what read_idx throws, and
// a data Error for labels other than 0 and 1 or files that do not fit together.
std::unique_ptr<ImageDataset> open_pathfinder_idx(const std::string& prefix);

}  // namespace tost
