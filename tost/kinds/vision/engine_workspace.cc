#include "tost/kinds/vision/engine_workspace.h"

#include <algorithm>

#include "tost/kinds/vision/engine_stem.h"

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

}  // namespace

VisionWorkspace::VisionWorkspace(const VisionConfig& config, const VisionWeights& weights,
                                 const VisionShape& shape, int64_t tile_rows)
    : shape(shape), tile_rows(tile_rows) {
  ScratchMemory counted;
  lay_out(config, weights, counted);
  memory_ = torch::zeros({counted.used()}, torch::kUInt8);
  ScratchMemory memory(static_cast<char*>(memory_.mutable_data_ptr()));
  lay_out(config, weights, memory);
}

void VisionWorkspace::lay_out(const VisionConfig& config, const VisionWeights& weights,
                              ScratchMemory& memory) {
  const Packing products = weights.blocks[0].fc1.packing();
  const int64_t size = products == Packing::kFloat32 ? 4 : 2;
  const int64_t dim = config.dim, images = shape.images;
  const int64_t hidden = weights.class_blocks[0].fc1.outputs();
  const int64_t all = images * shape.tokens * dim;
  stream = memory.take<float>(all * 4);
  projected = memory.take<char>(all * size);
  mixed = memory.take<char>(all * size);
  tssa_bytes = tssa_scratch_bytes(shape.tokens, config.heads, dim);
  tssa = memory.take<char>(images * tssa_bytes);
  classed.clear();
  for (size_t i = 0; i < weights.class_blocks.size(); ++i) {
    classed.push_back(memory.take<char>(images * (1 + shape.patches) * dim * size));
  }
  class_stream = memory.take<float>(images * dim * 4);
  class_normed = memory.take<char>(images * dim * size);
  class_query = memory.take<float>(images * config.heads * dim * 4);
  class_sums = memory.take<char>(images * config.heads * dim * size);
  class_values = memory.take<char>(images * dim * size);
  class_hidden = memory.take<char>(images * hidden * size);
  scratch.clear();
  pictures.assign(static_cast<size_t>(shape.threads), {});
  for (int64_t t = 0; t < shape.threads; ++t) {
    ThreadScratch piece = block_scratch(memory, tile_rows, dim, hidden, products,
                                        product_bytes(weights, tile_rows, images));
    piece.gathered = memory.take<char>(gathered_bytes(weights, size));
    piece.attention = memory.take<float>(config.heads * (1 + shape.patches) * 4);
    scratch.push_back(piece);
    int64_t pixels = shape.patches * config.patch * config.patch;
    for (const auto& stage : weights.stem) {
      pictures[static_cast<size_t>(t)].push_back(memory.take<char>(pixels * stage.from * size));
      pixels /= stage.stride * stage.stride;
    }
  }
}

}  // namespace tost
