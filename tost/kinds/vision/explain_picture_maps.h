// Maps of a network on one picture: predictions, memberships, attention and token norms.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/data/preprocess.h"
#include "tost/explain/measures.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/torch.h"

namespace tost {

// A picture as input of a network, with its metadata.
struct PictureInput {
  std::string name;               // the file, or its place in the data
  std::string truth;              // class it belongs to; "" unknown
  int64_t width = 0, height = 0;  // the file's picture
  Image seen;                     // the network's input, before normalisation
  bool resized = false;           // `seen` has another size than the file
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

// One entry a layer; tensors the mixer does not give are undefined. N = rows x columns patches,
// row-major. float64 unless noted.
struct PictureLayer {
  torch::Tensor memberships;     // Π [H, N], sums to 1 over heads
  torch::Tensor likeliest;       // the head of the largest membership, from 0 [N] int64
  torch::Tensor entropy;         // see membership_entropy() [N]
  torch::Tensor norms;           // of the patches after the block [N]
  torch::Tensor register_norms;  // of the registers after the block [R]
  // compression_before and compression_after of layer_rates.h; NaN for a layer that has no rates.
  double compression_before = std::nan(""), compression_after = std::nan("");
};

struct PictureMaps {
  PictureInput input;
  std::vector<RankedClass> top;  // at most three
  int64_t rows = 0, columns = 0;
  std::vector<PictureLayer> layers;
  // One a class-attention block: share of the class token's attention on each patch [H, N], and on
  // itself [H]; together they sum to 1.
  std::vector<torch::Tensor> class_attention, class_on_itself;
};

// `model` is in evaluation mode; the picture has the model's input size.
PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input);

// Moves the traces from a GPU to the CPU.
void move_to_cpu(VisionTrace& trace);

}  // namespace tost
