// Sets of labelled pictures, and the function that opens any such set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/io/image.h"
#include "tost/io/named_sets.h"
#include "tost/io/preprocess.h"

namespace tost {

// The stream of random numbers for a split of generated data.
inline uint64_t split_stream(const std::string& split) {
  return split == "train" ? 1 : split == "validation" ? 2 : 3;
}

// A data set is immutable after construction, and several threads may call its members at once.
// Indices run from 0 to size() - 1.
class ImageDataset {
 public:
  virtual ~ImageDataset() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<std::string>& classes() const = 0;
  virtual int64_t label(int64_t i) const = 0;  // 0 ... classes().size() - 1
  virtual Image image(int64_t i) const = 0;    // may throw a data Error naming the file
  virtual std::string name(int64_t i) const = 0;

  // The true class of each pixel of image(i), in one channel: 0 for background, else class + 1.
  virtual bool has_mask() const { return false; }
  virtual Image mask(int64_t i) const;  // a usage Error where there is none

  virtual std::string format() const = 0;     // "idx", "cifar10", "cifar100", "folder", "shapes"
  virtual int64_t channels() const = 0;       // 1 if every picture is grey, else 3
  virtual int64_t side() const { return 0; }  // height and width if they are all equal, else 0
};

// Selects a data set. `seed`, `side`, `train_size` and `test_size` are for the generated `shapes`.
struct DataSpec {
  std::string path = "shapes";  // a directory, or "shapes"
  std::string format = "auto";  // auto, idx, cifar10, cifar100, folder, shapes
  // The share of the training pictures that becomes the validation split if the data have none. A
  // fixed seed draws the pictures, so they are the same in every run. -1: 5 %, at most 5,000
  // pictures. 0: no validation split.
  double holdout = -1;
  // The limit in bytes for the cache of decoded pictures of folders and of `shapes`.
  int64_t cache_bytes = int64_t{512} << 20;
  uint64_t seed = 0;
  int64_t side = 32;
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;  // also the size of its validation split
};

// Opens one split: "train", "validation" (or "val") or "test". The layouts that `auto` recognises,
// in this order:
//   shapes    path "shapes"
//   cifar10   train.bin or data_batch_*.bin, with batches.meta.txt (also in cifar-10-batches-bin/)
//   cifar100  train.bin with fine_label_names.txt (also in cifar-100-binary/)
//   idx       train-images-idx3-ubyte[.gz] and the like (also in raw/)
//   folder    train/ with a folder a class (also in images/), or only class folders
// Throws a usage Error for an unknown format or split, and a data Error naming a missing or
// malformed file.
std::unique_ptr<ImageDataset> open_image_dataset(const DataSpec& spec, const std::string& split);

// The splits that open_image_dataset can open, in the order train, validation, test.
std::vector<std::string> image_dataset_splits(const DataSpec& spec);

// The names of formats: "auto", and then the layouts in the order of recognition.
std::vector<std::string> image_formats();

// The format that `auto` finds for this path, or spec.format if it is not "auto".
std::string image_dataset_format(const DataSpec& spec);

// The readers of idx files and CIFAR: `directory` holds the files, `split` is "train", "validation"
// or "test".
bool has_idx_split(const std::string& directory, const std::string& split);
std::unique_ptr<ImageDataset> open_idx(const std::string& directory, const std::string& split);

bool has_cifar_split(const std::string& directory, const std::string& split);
// format: "cifar10" or "cifar100".
std::unique_ptr<ImageDataset> open_cifar(const std::string& directory, const std::string& format,
                                         const std::string& split);

// ImageNet's constants for folders of photographs, as in official recipes; for other formats the
// statistics of up to 10,000 evenly spaced pictures of `train`, the training split.
ChannelStats channel_stats(const ImageDataset& train, int64_t channels);

}  // namespace tost
