// Maps of a network on one picture: predictions, memberships, attention and token norms.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/explain/measures.h"
#include "tost/io/preprocess.h"
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
// Reads a picture. Throws a data Error naming a file that cannot be read.
PictureInput read_picture(const std::string& path, const Preprocess& preprocess);
PictureInput dataset_picture(const ImageDataset& data, int64_t index, const Preprocess& preprocess);

// The indices of `count` evenly spaced pictures of `size`; all if there are fewer.
std::vector<int64_t> spaced_indices(int64_t size, int64_t count);

// Marks the tokens of a row-major grid of patches that show the large object of picture `index`: at
// least half of the patch in the network's input has pixels of the object's class.
TokenMask object_tokens(const ImageDataset& data, int64_t index, const Preprocess& preprocess,
                        int64_t rows, int64_t columns);

// The maps of a layer over N = rows x columns patches, row-major, in float64 unless noted. Tensors
// that the mixer does not have are undefined.
struct PictureLayer {
  torch::Tensor memberships;     // Π [H, N], sums to 1 over heads
  torch::Tensor likeliest;       // the head of the largest membership, from 0 [N] int64
  torch::Tensor entropy;         // see membership_entropy() [N]
  torch::Tensor norms;           // of the patches after the block [N]
  torch::Tensor register_norms;  // of the registers after the block [R]
  // The compression_before and compression_after of layer_rates.h, or NaN for a layer without
  // rates.
  double compression_before = std::nan(""), compression_after = std::nan("");
};

struct PictureMaps {
  PictureInput input;
  std::vector<RankedClass> top;  // at most three
  int64_t rows = 0, columns = 0;
  std::vector<PictureLayer> layers;
  // For each class-attention block, the attention of the class token to each patch [H, N] and to
  // itself [H]; the sum is 1.
  std::vector<torch::Tensor> class_attention, class_on_itself;
};

// Computes the maps; `model` must be in evaluation mode, and the picture must have its input size.
PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input);

// Moves the traces from a GPU to the CPU.
void move_to_cpu(VisionTrace& trace);

}  // namespace tost
