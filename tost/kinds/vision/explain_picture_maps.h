// Maps of networks as modules (engine/picture_maps.h), and the pictures that reports are about.
#pragma once

#include <string>
#include <vector>

#include "tost/engine/picture_maps.h"
#include "tost/explain/measures.h"
#include "tost/io/dataset.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/torch.h"

namespace tost {

// Reads a picture. Throws a data Error naming a file that cannot be read.
PictureInput read_picture(const std::string& path, const Preprocess& preprocess);
PictureInput dataset_picture(const ImageDataset& data, int64_t index, const Preprocess& preprocess);

// The indices of `count` evenly spaced pictures of `size`; all if there are fewer.
std::vector<int64_t> spaced_indices(int64_t size, int64_t count);

// Marks the tokens of a row-major grid of patches that show the large object of picture `index`: at
// least half of the patch in the network's input has pixels of the object's class.
TokenMask object_tokens(const ImageDataset& data, int64_t index, const Preprocess& preprocess,
                        int64_t rows, int64_t columns);

// Computes the maps; `model` must be in evaluation mode, and the picture must have its input size.
PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input);

// Moves the traces from a GPU to the CPU.
void move_to_cpu(VisionTrace& trace);

}  // namespace tost
