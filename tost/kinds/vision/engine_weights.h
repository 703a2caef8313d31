// The weights of a vision network as the engine reads them: laid out once, batch norms folded.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/kinds/vision/transformer.h"
#include "tost/nn/block_pass.h"
#include "tost/ops/packed_linear.h"
#include "tost/torch.h"

namespace tost {

// A 3x3 convolution with its batch norm, as a product over gathered pixels. Inputs are ordered
// (row, column, channel); of the first stage (channel, row, column), padded with zeros to
// product.inputs().
struct StemStage {
  int64_t from = 0, to = 0, stride = 1;
  PackedLinear product;
};

// Attention of the class token without keys and values of the patches (attend_rows.h): per head the
// query goes through W_kᵀ, the weighted sum of tokens through W_v. The keys' bias adds the same to
// all logits and drops out.
struct ClassBlockWeights {
  NormWeights norm1, norm2;
  NormWeights doubled;  // norm2 with twice the weight and bias, for the tokens; undefined without
  PackedLinear query;   // [C, C]
  std::vector<PackedLinear> key, value;  // one a head, [C, P] and [P, C]
  PackedLinear out, fc1, fc2;
  torch::Tensor gamma1, gamma2;
};

struct VisionWeights {
  std::vector<StemStage> stem;
  std::vector<TokenBlockWeights> blocks;
  std::vector<ClassBlockWeights> class_blocks;
  torch::Tensor position, position_bias;  // [C, 64] and [C], of the Fourier code
  torch::Tensor class_token;              // [C]
  torch::Tensor registers;                // [R, C] or undefined
  NormWeights norm;
  PackedLinear head;
};

// `products` is what the blocks compute with; where that is int8, the stem and the class token, a
// tenth of the work, stay in bfloat16.
VisionWeights pack_vision_weights(const VisionTransformer& model, Packing products);

}  // namespace tost
