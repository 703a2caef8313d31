// The weights of a classifier of sequences as the engine reads them.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/config.h"
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
// Throws a data Error naming the tensor where weights that are not finite would become integers.
SequenceWeights pack_sequence_weights(const SequenceClassifier& model, Packing products);

// Memory of the sequence engine, kept from call to call.

// What the largest calls so far asked for.
struct SequenceSizes {
  int64_t carried = 0;    // rows of a group that a thread has to itself
  int64_t spread = 0;     // rows of a group that all threads share
  int64_t sequences = 0;  // of a group
  int64_t longest = 0;    // rows of a sequence
  int64_t threads = 1;

  bool hold(const SequenceSizes& other) const;
  // Each the larger one; threads those of `other`.
  SequenceSizes joined(const SequenceSizes& other) const;
};

class SequenceWorkspace {
 public:
  // `tile_rows`, T: most rows of a tile.
  SequenceWorkspace(const SequenceConfig& config, const SequenceWeights& weights,
                    const SequenceSizes& sizes, int64_t tile_rows);

  // Where a group is on its way.
  struct Region {
    BlockRows rows;            // [max(carried, spread) or carried, C]
    BlockRows heads;           // [sequences, C]: class tokens
    float* partial = nullptr;  // [tiles + sequences, C]
  };

  const SequenceSizes sizes;
  std::vector<Region> regions;         // [threads], the first for groups that threads share
  std::vector<ThreadScratch> scratch;  // [threads]
  std::vector<void*> tssa;             // [threads], each for one sequence
  void* features = nullptr;            // [T, 4 C]
  void* hidden = nullptr;              // [T, hidden]

 private:
  void lay_out(const SequenceConfig& config, const SequenceWeights& weights, int64_t tile_rows,
               ScratchMemory& memory);

  torch::Tensor memory_;
};

}  // namespace tost
