#include "tost/kinds/vision/engine_weights.h"

#include "tost/base/error.h"
#include "tost/base/rounding.h"

namespace tost {
namespace {

using torch::Tensor;

// weight [to, from, 3, 3] with its batch norm (in evaluation mode) folded in.
StemStage stem_stage(torch::nn::Module& stage, bool first, Packing packing) {
  const auto& conv = *stage.named_children()["0"]->as<torch::nn::Conv2dImpl>();
  const auto& norm = *stage.named_children()["1"]->as<torch::nn::BatchNorm2dImpl>();
  const Tensor scale = norm.weight / torch::sqrt(norm.running_var + norm.options.eps());
  const Tensor folded = conv.weight * scale.view({-1, 1, 1, 1});
  const Tensor bias = norm.bias - norm.running_mean * scale;
  Tensor matrix = (first ? folded : folded.permute({0, 2, 3, 1})).flatten(1);
  // Whole steps of the kernels that multiply; what is gathered is filled up with zeros as well.
  const int64_t step = packing == Packing::kFloat32 ? 4 : 32, inputs = matrix.size(1);
  matrix = torch::constant_pad_nd(matrix, {0, divide_up(inputs, step) * step - inputs});
  return {conv.weight.size(1), conv.weight.size(0), conv.options.stride()->front(),
          PackedLinear(matrix, bias, packing)};
}

ClassBlockWeights class_block_weights(const ClassAttentionBlock& block, const VisionConfig& config,
                                      Packing packing) {
  const int64_t dim = config.dim, width = dim / config.heads;
  const Linear& qkv = *block.attn->qkv;
  const auto rows = [&](const Tensor& all, int64_t part, int64_t first, int64_t count) {
    return all.defined() ? all.narrow(0, part * dim + first, count) : Tensor();
  };
  ClassBlockWeights weights;
  weights.norm1 = norm_weights(*block.norm1);
  weights.norm2 = norm_weights(*block.norm2);
  if (config.tokens_norm) weights.doubled = norm_weights(*block.norm2, 2);
  weights.query = PackedLinear(rows(qkv.weight, 0, 0, dim), rows(qkv.bias, 0, 0, dim), packing);
  for (int64_t head = 0; head < config.heads; ++head) {
    weights.key.emplace_back(rows(qkv.weight, 1, head * width, width).t(), Tensor(), packing);
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
  // Between the stages stand the GELUs, which have no entry.
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

}  // namespace tost
