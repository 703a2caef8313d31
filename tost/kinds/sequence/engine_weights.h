// The weights of a classifier of sequences as the engine reads them.
#pragma once

#include <vector>

#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/block_pass.h"
#include "tost/ops/packed_linear.h"
#include "tost/torch.h"

namespace tost {

struct SequenceWeights {
  torch::Tensor tokens;       // [vocab, C]
  torch::Tensor positions;    // [P, C]; undefined unless learned
  torch::Tensor class_token;  // [C]; undefined with mean pooling
  std::vector<TokenBlockWeights> blocks;
  NormWeights norm;
  PackedLinear head;                // of single sequences
  PackedLinear pair_fc1, pair_fc2;  // of pairs
};

// `products` is what the blocks compute with; where that is int8, the head stays in bfloat16.
// Throws a data Error naming the tensor where weights that are not finite would become whole
// numbers.
SequenceWeights pack_sequence_weights(const SequenceClassifier& model, Packing products);

}  // namespace tost
