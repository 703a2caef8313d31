#include "tost/infer/sequence_workspace.h"

#include <algorithm>

#include "tost/infer/sequence_plan.h"
#include "tost/kernels/tssa.h"

namespace tost {
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

int64_t tssa_bytes(const SequenceConfig& config, int64_t tokens) {
  kernels::TssaForwardArgs args;
  args.shape = {1, tokens, config.heads, config.dim / config.heads};
  return kernels::tssa_forward_workspace(args);
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
  lay_out(config, weights, tile_rows, nullptr);
  memory_ = torch::zeros({used_}, torch::kUInt8);
  used_ = 0;
  lay_out(config, weights, tile_rows, static_cast<char*>(memory_.mutable_data_ptr()));
}

template <class T>
T* SequenceWorkspace::take(char* base, int64_t bytes) {
  // Pages apart by a line more than they hold, so that pieces do not all start in the same set of
  // the caches.
  auto* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used_);
  used_ += (bytes + 63) / 64 * 64 + 64;
  return piece;
}

void SequenceWorkspace::lay_out(const SequenceConfig& config, const SequenceWeights& weights,
                                int64_t tile_rows, char* base) {
  const int64_t dim = config.dim, hidden_width = mlp_hidden(config);
  const int64_t size = weights.blocks[0].fc1.packing() == Packing::kFloat32 ? 4 : 2;
  const auto take_rows = [&](int64_t rows) {
    return BlockRows{.stream = take<float>(base, rows * dim * 4),
                     .projected = take<char>(base, rows * dim * size),
                     .mixed = take<char>(base, rows * dim * size)};
  };
  regions.clear();
  scratch.clear();
  tssa.clear();
  for (int64_t t = 0; t < sizes.threads; ++t) {
    const int64_t rows = t == 0 ? std::max(sizes.carried, sizes.spread) : sizes.carried;
    const int64_t here = t == 0 || sizes.carried > 0 ? sizes.sequences : 0;
    Region region{.rows = take_rows(rows), .heads = take_rows(here)};
    region.partial = take<float>(base, (rows / TileCut::kLeast + 1 + here) * dim * 4);
    regions.push_back(region);
    ThreadScratch piece;
    piece.normed = take<char>(base, tile_rows * dim * 4);
    piece.hidden = take<char>(base, tile_rows * hidden_width * size);
    piece.bytes = take<uint8_t>(base, tile_rows * std::max(hidden_width, dim));
    piece.scale = take<float>(base, 2 * tile_rows * 4);
    piece.zero = take<int32_t>(base, 2 * tile_rows * 4);
    piece.product = take<char>(base, product_bytes(weights, tile_rows));
    scratch.push_back(piece);
    tssa.push_back(take<char>(base, tssa_bytes(config, sizes.longest)));
  }
  features = take<char>(base, tile_rows * 4 * dim * size);
  hidden = take<char>(base, tile_rows * hidden_width * size);
}

}  // namespace tost
