#include "tost/kinds/vision/engine_weights.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

// Folds the batch norm (in evaluation mode) into the weight [to, from, 3, 3].
StemStage stem_stage(torch::nn::Module& stage, bool first, Packing packing) {
  const auto& conv = *stage.named_children()["0"]->as<torch::nn::Conv2dImpl>();
  const auto& norm = *stage.named_children()["1"]->as<torch::nn::BatchNorm2dImpl>();
  const Tensor scale = norm.weight / torch::sqrt(norm.running_var + norm.options.eps());
  const Tensor folded = conv.weight * scale.view({-1, 1, 1, 1});
  const Tensor bias = norm.bias - norm.running_mean * scale;
  Tensor matrix = (first ? folded : folded.permute({0, 2, 3, 1})).flatten(1);
  // Pads inputs with zeros to whole steps of the kernels; gathered pixels are padded, too.
  const int64_t step = packing == Packing::kFloat32 ? 4 : 32, inputs = matrix.size(1);
  matrix = torch::constant_pad_nd(matrix, {0, divide_up(inputs, step) * step - inputs});
  return {conv.weight.size(1), conv.weight.size(0), conv.options.stride()->front(),
          PackedLinear(array_of(matrix), array_of(bias), packing)};
}

ClassBlockWeights class_block_weights(const ClassAttentionBlock& block, const VisionConfig& config,
                                      Packing packing) {
  const int64_t dim = config.dim, width = dim / config.heads;
  const Linear& qkv = *block.attn->qkv;
  const auto rows = [&](const Tensor& all, int64_t part, int64_t first, int64_t count) {
    return array_of(all.defined() ? all.narrow(0, part * dim + first, count) : Tensor());
  };
  ClassBlockWeights weights;
  weights.norm1 = norm_weights(*block.norm1);
  weights.norm2 = norm_weights(*block.norm2);
  if (config.tokens_norm) weights.doubled = norm_weights(*block.norm2, 2);
  weights.query = PackedLinear(rows(qkv.weight, 0, 0, dim), rows(qkv.bias, 0, 0, dim), packing);
  for (int64_t head = 0; head < config.heads; ++head) {
    weights.key.emplace_back(array_of(tensor_of(rows(qkv.weight, 1, head * width, width)).t()),
                             Array(), packing);
    weights.value.emplace_back(rows(qkv.weight, 2, head * width, width),
                               rows(qkv.bias, 2, head * width, width), packing);
  }
  weights.out = packed_map(*block.attn->proj, packing);
  weights.fc1 = packed_map(*block.mlp->fc1, packing);
  weights.fc2 = packed_map(*block.mlp->fc2, packing);
  weights.gamma1 = weight_values(block.gamma1);
  weights.gamma2 = weight_values(block.gamma2);
  return weights;
}

}  // namespace

VisionWeights pack_vision_weights(const VisionTransformer& model, Packing products) {
  const torch::NoGradGuard no_grad;
  const VisionConfig& config = model.config();
  const Packing rest = products == Packing::kInt8 ? Packing::kBfloat16 : products;
  VisionWeights weights;
  // Skips the GELUs between the stages, which have no weights.
  for (const auto& stage : model.patch_embed->proj->children()) {
    weights.stem.push_back(stem_stage(*stage, weights.stem.empty(), rest));
  }
  for (const auto& block : *model.blocks) {
    weights.blocks.push_back(token_block_weights(*block->as<Block>(), products,
                                                 cat("blocks.", weights.blocks.size(), ".")));
  }
  for (const auto& block : *model.cls_attn_blocks) {
    weights.class_blocks.push_back(
        class_block_weights(*block->as<ClassAttentionBlock>(), config, rest));
  }
  weights.position = weight_values(model.pos_embeder->token_projection->weight.flatten(1));
  weights.position_bias = weight_values(model.pos_embeder->token_projection->bias);
  weights.class_token = weight_values(model.cls_token.flatten());
  if (config.registers > 0) weights.registers = weight_values(model.registers.squeeze(0));
  weights.norm = norm_weights(*model.norm);
  weights.head = packed_map(*model.head, rest);
  return weights;
}

namespace {

// The workspace for one thread's products of at most `rows` rows.
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
