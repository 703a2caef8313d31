#include "tost/kinds/vision/transformer.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/nn/hidden_width.h"

namespace tost {

VisionTransformer::VisionTransformer(const VisionConfig& c) : ImageClassifier(c) {
  const MixerConfig mixer{.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias};
  const BlockConfig block{.dim = c.dim,
                          .mlp_hidden = hidden_width(c.dim, c.mlp_ratio),
                          .layer_scale = c.layer_scale,
                          .drop_path = c.drop_path};
  cls_token = register_parameter("cls_token", torch::zeros({1, 1, c.dim}));
  if (c.registers > 0) {
    registers = register_parameter("registers", torch::zeros({1, c.registers, c.dim}));
  }
  patch_embed = register_module(
      "patch_embed", std::make_shared<PatchStem>(c.in_channels, c.dim, c.patch, c.stem_depth));
  pos_embeder = register_module("pos_embeder", std::make_shared<FourierPosition>(c.dim));
  blocks = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  for (int64_t i = 0; i < c.depth; ++i) {
    blocks_.push_back(std::make_shared<Block>(block, make_mixer(c.mixer, mixer)));
    blocks->push_back(blocks_.back());
  }
  cls_attn_blocks =
      register_module("cls_attn_blocks", std::make_shared<torch::nn::ModuleListImpl>());
  for (int64_t i = 0; i < c.class_blocks; ++i) {
    class_blocks_.push_back(
        std::make_shared<ClassAttentionBlock>(block, c.heads, c.qkv_bias, c.tokens_norm));
    cls_attn_blocks->push_back(class_blocks_.back());
  }
  norm = register_module("norm", std::make_shared<LayerNorm>(c.dim));
  head = register_module("head", std::make_shared<Linear>(c.dim, c.classes, true));
}

torch::Tensor VisionTransformer::embed(const torch::Tensor& any_images, VisionTrace* trace) {
  const auto images = checked_images(any_images);
  const int64_t patch = config().patch;
  if (images.size(2) % patch != 0 || images.size(3) % patch != 0) {
    fail_data("Images of ", images.size(2), " x ", images.size(3),
              " pixels do not divide into patches of ", patch, " x ", patch, " (model '",
              config().name, "'); resize them to multiples of ", patch, ".");
  }
  auto x = patch_embed->forward(images);  // [B, rows, columns, C]
  const int64_t rows = x.size(1), columns = x.size(2);
  x = x.flatten(1, 2) + pos_embeder->forward(rows, columns);
  if (trace != nullptr) {
    *trace = VisionTrace{};
    trace->rows = rows;
    trace->columns = columns;
    trace->registers = config().registers;
    trace->stem_output = x;
  }
  return x;
}

torch::Tensor VisionTransformer::run_blocks(torch::Tensor x, VisionTrace* trace) {
  const int64_t patches = x.size(1);
  if (registers.defined()) x = torch::cat({x, registers.expand({x.size(0), -1, -1})}, 1);
  for (const auto& block : blocks_) {
    if (trace == nullptr) {
      x = block->forward(x);
      continue;
    }
    BlockTrace seen;
    x = block->forward(x, &seen);
    trace->mixer_inputs.push_back(seen.mixer_input);
    trace->projections.push_back(seen.mixer.w);
    trace->memberships.push_back(seen.mixer.pi);
    trace->mixer_outputs.push_back(seen.mixer_output);
    trace->mixed.push_back(seen.mixed);
    trace->block_outputs.push_back(x);
  }
  return registers.defined() ? x.narrow(1, 0, patches) : x;
}

torch::Tensor VisionTransformer::classify(const torch::Tensor& tokens, VisionTrace* trace) {
  ClassState state{cls_token.expand({tokens.size(0), -1, -1}), tokens};
  for (const auto& block : class_blocks_) {
    torch::Tensor weights;
    state =
        block->forward(state, block == class_blocks_.back(), trace != nullptr ? &weights : nullptr);
    if (trace != nullptr) trace->class_attention.push_back(weights);
  }
  return head->forward(norm->forward(state.cls.squeeze(1)));
}

torch::Tensor VisionTransformer::forward(const torch::Tensor& images) {
  return classify(run_blocks(embed(images, nullptr), nullptr), nullptr);
}

torch::Tensor VisionTransformer::forward_traced(const torch::Tensor& images, VisionTrace& trace) {
  return classify(run_blocks(embed(images, &trace), &trace), &trace);
}

}  // namespace tost
