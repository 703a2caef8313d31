// Pictures as a network sees them, with what is known about each.
#pragma once

#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/data/preprocess.h"
#include "tost/explain/measures.h"
#include "tost/torch.h"

namespace tost {

struct PictureInput {
  std::string name;               // the file, or its place in the data
  std::string truth;              // class it belongs to; "" unknown
  int64_t width = 0, height = 0;  // as it was found
  Image seen;                     // what the network gets, before normalisation
  bool resized = false;           // `seen` has another size than what was found
  torch::Tensor tensor;           // [C, S, S] float32, normalised
};

// Without a name.
PictureInput picture_input(const Image& image, const Preprocess& preprocess);
// Throws a data Error naming the file that cannot be read.
PictureInput read_picture(const std::string& path, const Preprocess& preprocess);
PictureInput dataset_picture(const ImageDataset& data, int64_t index, const Preprocess& preprocess);

// Indices of `count` pictures of `size`, evenly spaced; all of them where there are fewer.
std::vector<int64_t> spaced_indices(int64_t size, int64_t count);

// Which tokens of a grid of patches, row-major, show the large object of picture `index`: its
// class's pixels are at least half of the patch, in the picture as the network sees it.
TokenMask object_tokens(const ImageDataset& data, int64_t index, const Preprocess& preprocess,
                        int64_t rows, int64_t columns);

}  // namespace tost
