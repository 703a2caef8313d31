#include "tost/infer/vision_workspace.h"

#include <algorithm>

#include "tost/base/rounding.h"
#include "tost/infer/vision_stem.h"
#include "tost/kernels/tssa.h"

namespace tost {
namespace {

// Scratch that one thread's products of at most `rows` rows want.
int64_t product_bytes(const VisionWeights& weights, int64_t rows, int64_t images) {
  int64_t most = weights.head.scratch_bytes(images);
  const auto want = [&](const PackedLinear& map, int64_t of_rows) {
    if (map.defined()) most = std::max(most, map.scratch_bytes(of_rows));
  };
  for (const auto& stage : weights.stem) want(stage.product, stem_tile_rows(stage));
  for (const auto& block : weights.blocks) {
    for (const auto* map : {&block.in, &block.out, &block.fc1, &block.fc2}) want(*map, rows);
  }
  for (const auto& block : weights.class_blocks) {
    for (const auto* map :
         {&block.query, &block.key[0], &block.value[0], &block.out, &block.fc1, &block.fc2}) {
      want(*map, images);
    }
  }
  return most;
}

int64_t gathered_bytes(const VisionWeights& weights, int64_t size) {
  int64_t most = 0;
  for (const auto& stage : weights.stem) {
    most = std::max(most, stem_tile_rows(stage) * stage.product.inputs() * size);
  }
  return most;
}

int64_t tssa_bytes_of(const VisionConfig& config, const VisionShape& shape) {
  kernels::TssaForwardArgs args;
  args.shape = {1, shape.tokens, config.heads, config.dim / config.heads};
  return (kernels::tssa_forward_workspace(args) + 63) / 64 * 64;
}

}  // namespace

VisionWorkspace::VisionWorkspace(const VisionConfig& config, const VisionWeights& weights,
                                 const VisionShape& shape, bool half, int64_t tile_rows)
    : shape(shape), tile_rows(tile_rows) {
  lay_out(config, weights, half, nullptr);
  memory_ = torch::zeros({used_}, torch::kUInt8);
  used_ = 0;
  lay_out(config, weights, half, static_cast<char*>(memory_.mutable_data_ptr()));
}

template <class T>
T* VisionWorkspace::take(char* base, int64_t bytes) {
  // Pages apart by a line more than they hold, so that pieces do not all start in the same set of
  // the caches.
  auto* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used_);
  used_ += aligned(bytes) + 64;
  return piece;
}

void VisionWorkspace::lay_out(const VisionConfig& config, const VisionWeights& weights, bool half,
                              char* base) {
  const int64_t size = half ? 2 : 4, dim = config.dim, images = shape.images;
  const int64_t hidden = weights.class_blocks[0].fc1.outputs();
  const int64_t all = images * shape.tokens * dim;
  stream = take<float>(base, all * 4);
  projected = take<char>(base, all * size);
  mixed = take<char>(base, all * size);
  tssa_bytes = tssa_bytes_of(config, shape);
  tssa = take<char>(base, images * tssa_bytes);
  classed.clear();
  for (size_t i = 0; i < weights.class_blocks.size(); ++i) {
    classed.push_back(take<char>(base, images * (1 + shape.patches) * dim * size));
  }
  class_stream = take<float>(base, images * dim * 4);
  class_normed = take<char>(base, images * dim * size);
  class_query = take<float>(base, images * config.heads * dim * 4);
  class_sums = take<char>(base, images * config.heads * dim * size);
  class_values = take<char>(base, images * dim * size);
  class_hidden = take<char>(base, images * hidden * size);
  scratch.clear();
  pictures.assign(static_cast<size_t>(shape.threads), {});
  for (int64_t t = 0; t < shape.threads; ++t) {
    ThreadScratch piece;
    piece.normed = take<char>(base, tile_rows * dim * 4);
    piece.hidden = take<char>(base, tile_rows * hidden * size);
    piece.bytes = take<uint8_t>(base, tile_rows * std::max(hidden, dim));
    piece.scale = take<float>(base, 2 * tile_rows * 4);
    piece.zero = take<int32_t>(base, 2 * tile_rows * 4);
    piece.product = take<char>(base, product_bytes(weights, tile_rows, images));
    piece.gathered = take<char>(base, gathered_bytes(weights, size));
    piece.attention = take<float>(base, config.heads * (1 + shape.patches) * 4);
    scratch.push_back(piece);
    int64_t pixels = shape.patches * config.patch * config.patch;
    for (const auto& stage : weights.stem) {
      pictures[static_cast<size_t>(t)].push_back(take<char>(base, pixels * stage.from * size));
      pixels /= stage.stride * stage.stride;
    }
  }
}

}  // namespace tost
