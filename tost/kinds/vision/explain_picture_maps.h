// What a network does to one picture: its predictions, memberships, attention and token norms.
#pragma once

#include <vector>

#include "tost/kinds/vision/explain_picture_input.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/predict.h"
#include "tost/torch.h"

namespace tost {

// One entry a layer; tensors the mixer does not give are undefined. N = rows x columns patches,
// row-major. float64 unless said otherwise.
struct PictureLayer {
  torch::Tensor memberships;     // Π [H, N], sums to 1 over heads
  torch::Tensor likeliest;       // the head of the largest membership, from 0 [N] int64
  torch::Tensor entropy;         // see membership_entropy() [N]
  torch::Tensor norms;           // of the patches after the block [N]
  torch::Tensor register_norms;  // of the registers after the block [R]
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

// `model` is in evaluation mode; its input is the model's own size.
PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input);

// What was seen on a GPU, on the CPU.
void move_to_cpu(VisionTrace& trace);

}  // namespace tost
