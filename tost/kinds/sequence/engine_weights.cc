#include "tost/kinds/sequence/engine_weights.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/kernels/tssa.h"
#include "tost/kinds/sequence/engine_plan.h"

namespace tost {

SequenceWeights pack_sequence_weights(const SequenceClassifier& model, Packing products) {
  const torch::NoGradGuard no_grad;
  const Packing rest = products == Packing::kInt8 ? Packing::kBfloat16 : products;
  const auto children = model.named_children();
  SequenceWeights weights;
  const auto& embed = *children["embed"]->as<SequenceEmbedding>();
  weights.tokens = weight_values(embed.tokens->weight);
  if (embed.positions != nullptr) weights.positions = weight_values(embed.positions->weight);
  if (embed.cls_token.defined()) weights.class_token = weight_values(embed.cls_token.flatten());
  for (const auto& block : children["blocks"]->named_children()) {
    weights.blocks.push_back(token_block_weights(*block.value()->as<Block>(), products,
                                                 cat("blocks.", block.key(), ".")));
  }
  weights.norm = norm_weights(*children["norm"]->as<LayerNorm>());
  if (model.config().pairs) {
    const auto& head = *children["head"]->as<PairHead>();
    weights.pair_fc1 = packed_map(*head.fc1, rest);
    weights.pair_fc2 = packed_map(*head.fc2, rest);
  } else {
    weights.head = packed_map(*children["head"]->as<Linear>(), rest);
  }
  return weights;
}

namespace {

// Scratch that one thread's products of at most `rows` rows want.
int64_t product_bytes(const SequenceWeights& weights, int64_t rows) {
  int64_t most = 0;
  const auto want = [&](const PackedLinear& map) {
    if (map.defined()) most = std::max(most, map.scratch_bytes(rows));
  };
  for (const auto& block : weights.blocks) {
    for (const auto* map : {&block.in, &block.out, &block.fc1, &block.fc2}) want(*map);
  }
  for (const auto* map : {&weights.head, &weights.pair_fc1, &weights.pair_fc2}) want(*map);
  return most;
}

}  // namespace

bool SequenceSizes::hold(const SequenceSizes& other) const {
  return carried >= other.carried && spread >= other.spread && sequences >= other.sequences &&
         longest >= other.longest && threads == other.threads;
}

SequenceSizes SequenceSizes::joined(const SequenceSizes& other) const {
  return {std::max(carried, other.carried), std::max(spread, other.spread),
          std::max(sequences, other.sequences), std::max(longest, other.longest), other.threads};
}

SequenceWorkspace::SequenceWorkspace(const SequenceConfig& config, const SequenceWeights& weights,
                                     const SequenceSizes& sizes, int64_t tile_rows)
    : sizes(sizes) {
  ScratchMemory counted;
  lay_out(config, weights, tile_rows, counted);
  memory_ = torch::zeros({counted.used()}, torch::kUInt8);
  ScratchMemory memory(static_cast<char*>(memory_.mutable_data_ptr()));
  lay_out(config, weights, tile_rows, memory);
}

void SequenceWorkspace::lay_out(const SequenceConfig& config, const SequenceWeights& weights,
                                int64_t tile_rows, ScratchMemory& memory) {
  const int64_t dim = config.dim, hidden_width = mlp_hidden(config);
  const Packing products = weights.blocks[0].fc1.packing();
  const int64_t size = products == Packing::kFloat32 ? 4 : 2;
  const auto take_rows = [&](int64_t rows) {
    return BlockRows{.stream = memory.take<float>(rows * dim * 4),
                     .projected = memory.take<char>(rows * dim * size),
                     .mixed = memory.take<char>(rows * dim * size)};
  };
  regions.clear();
  scratch.clear();
  tssa.clear();
  for (int64_t t = 0; t < sizes.threads; ++t) {
    const int64_t rows = t == 0 ? std::max(sizes.carried, sizes.spread) : sizes.carried;
    const int64_t here = t == 0 || sizes.carried > 0 ? sizes.sequences : 0;
    Region region{.rows = take_rows(rows), .heads = take_rows(here)};
    region.partial = memory.take<float>((rows / TileCut::kLeast + 1 + here) * dim * 4);
    regions.push_back(region);
    scratch.push_back(block_scratch(memory, tile_rows, dim, hidden_width, products,
                                    product_bytes(weights, tile_rows)));
    tssa.push_back(memory.take<char>(tssa_scratch_bytes(sizes.longest, config.heads, dim)));
  }
  features = memory.take<char>(tile_rows * 4 * dim * size);
  hidden = memory.take<char>(tile_rows * hidden_width * size);
}

}  // namespace tost
