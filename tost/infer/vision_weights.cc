#include "tost/infer/vision_weights.h"

#include <string>

#include "tost/models/mixer_tssa.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor values(const Tensor& parameter) {
  return parameter.defined() ? parameter.detach().to(torch::kFloat).contiguous().clone() : Tensor();
}

NormWeights norm_weights(const LayerNorm& norm, float factor = 1) {
  NormWeights weights{values(norm.weight * factor), {}};
  if (norm.bias.defined()) weights.bias = values(norm.bias * factor);
  return weights;
}

PackedLinear packed(const Linear& linear, Packing packing) {
  return {linear.weight, linear.bias, packing};
}

// The same times gamma, its bias apart in `shift`; int8 products keep theirs for the scaling.
PackedLinear packed_onto_stream(const Linear& linear, const Tensor& gamma, Packing packing,
                                Tensor& shift) {
  if (packing == Packing::kInt8) return packed(linear, packing);
  shift = values(linear.bias * gamma);
  return {linear.weight * gamma.unsqueeze(1), Tensor(), packing};
}

// weight [to, from, 3, 3] with its batch norm (in evaluation mode) folded in.
StemStage stem_stage(torch::nn::Module& stage, bool first, Packing packing) {
  const auto& conv = *stage.named_children()["0"]->as<torch::nn::Conv2dImpl>();
  const auto& norm = *stage.named_children()["1"]->as<torch::nn::BatchNorm2dImpl>();
  const Tensor scale = norm.weight / torch::sqrt(norm.running_var + norm.options.eps());
  const Tensor folded = conv.weight * scale.view({-1, 1, 1, 1});
  const Tensor bias = norm.bias - norm.running_mean * scale;
  Tensor matrix = (first ? folded : folded.permute({0, 2, 3, 1})).flatten(1);
  constexpr int64_t kGroup = 16;  // whole vectors and pairs
  const int64_t padding = (kGroup - matrix.size(1) % kGroup) % kGroup;
  if (first) matrix = torch::constant_pad_nd(matrix, {0, padding});
  return {conv.weight.size(1), conv.weight.size(0), conv.options.stride()->front(),
          PackedLinear(matrix, bias, packing)};
}

VisionBlockWeights block_weights(const Block& block, Packing packing) {
  VisionBlockWeights weights;
  weights.norm1 = norm_weights(*block.norm1);
  weights.norm2 = norm_weights(*block.norm2);
  weights.fc1 = packed(*block.mlp->fc1, packing);
  weights.fc2 = packed_onto_stream(*block.mlp->fc2, block.gamma2, packing, weights.fc2_shift);
  weights.gamma1 = values(block.gamma1);
  weights.gamma2 = values(block.gamma2);
  weights.module = block.attn;
  const auto* tssa = dynamic_cast<const TssaMixer*>(block.attn.get());
  if (tssa == nullptr && dynamic_cast<const NoMixer*>(block.attn.get()) == nullptr) return weights;
  const auto& projections = static_cast<const TokenStatisticsMixer&>(*block.attn);
  weights.mixer = tssa != nullptr ? EngineMixer::kTssa : EngineMixer::kNone;
  weights.in = packed(*projections.qkv, packing);
  weights.out = packed_onto_stream(*projections.to_out->named_children()["0"]->as<Linear>(),
                                   block.gamma1, packing, weights.out_shift);
  if (tssa != nullptr) weights.temp = values(tssa->temp.flatten());
  return weights;
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
  weights.out = packed(*block.attn->proj, packing);
  weights.fc1 = packed(*block.mlp->fc1, packing);
  weights.fc2 = packed(*block.mlp->fc2, packing);
  weights.gamma1 = values(block.gamma1);
  weights.gamma2 = values(block.gamma2);
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
    weights.blocks.push_back(block_weights(*block->as<Block>(), products));
  }
  for (const auto& block : *model.cls_attn_blocks) {
    weights.class_blocks.push_back(
        class_block_weights(*block->as<ClassAttentionBlock>(), config, rest));
  }
  weights.position = values(model.pos_embeder->token_projection->weight.flatten(1));
  weights.position_bias = values(model.pos_embeder->token_projection->bias);
  weights.class_token = values(model.cls_token.flatten());
  if (config.registers > 0) weights.registers = values(model.registers.squeeze(0));
  weights.norm = norm_weights(*model.norm);
  weights.head = packed(*model.head, rest);
  return weights;
}

}  // namespace tost
