// A group of sequences on its way through a classifier: embedding, positions, blocks, pooling.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kinds/sequence/config.h"
#include "tost/kinds/sequence/engine_plan.h"
#include "tost/kinds/sequence/engine_weights.h"
#include "tost/nn/block_pass.h"

namespace tost {

class SequencePass {
 public:
  // `positions` [longest, C] is added to the rows of each sequence, or null. A tile has at most
  // `most` rows, and about `least` where there are enough.
  struct Setting {
    const SequenceConfig& config;
    const SequenceWeights& weights;
    const float* positions = nullptr;
    int64_t least = 0, most = 0;
  };
  SequencePass(const Setting& setting, const SequencePlan& plan, SequenceWorkspace& workspace,
               const SequenceGroup& group, size_t region);

  // Writes the vector before the head of each of the group's items to its row of pooled [batch, C].
  // `parallel` with `threads` threads spreads the tiles; serial_for and 1 where a thread has the
  // group to itself. It changes no bit.
  void run(ParallelFor parallel, int64_t threads, float* pooled) const;

 private:
  using Rows = BlockPass::Rows;

  void embed(Rows rows) const;
  void mix(const TokenBlockWeights& block, const float* shift, ParallelFor parallel,
           int64_t threads) const;
  void mix_item(const TokenBlockWeights& block, const SequenceItem& item, ParallelFor parallel,
                int64_t threads) const;
  void mix_by_module(const TokenBlockWeights& block, const float* shift) const;
  void pool_means(ParallelFor parallel, float* pooled) const;
  void mean_rows(int64_t tile, Rows rows) const;
  void pool_class_tokens(ParallelFor parallel, float* pooled) const;
  template <class Body>
  void for_tiles(const TileCut& cut, int64_t rows, ParallelFor parallel, const Body& body) const;

  const SequenceItem& item(int64_t index) const {
    return plan_.items[static_cast<size_t>(group_.first + index)];
  }
  int64_t item_of(int64_t row) const;  // whose row it is, counted in the group

  const Setting set_;
  const SequencePlan& plan_;
  const SequenceGroup group_;
  SequenceWorkspace& workspace_;
  const SequenceWorkspace::Region& region_;
  const BlockPass pass_;
  const TileCut cut_;
};

}  // namespace tost
