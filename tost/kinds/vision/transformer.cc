#include "tost/kinds/vision/transformer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tost/base/error.h"
#include "tost/comm/batch_norms.h"
#include "tost/engine/vision_weights.h"
#include "tost/ops/arrays.h"

namespace tost {

VisionTransformer::VisionTransformer(const VisionConfig& c) : ImageClassifier(c) {
  const MixerConfig mixer{.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias};
  const BlockConfig block{.dim = c.dim,
                          .mlp = c.mlp,
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
  check_sides(config(), images.size(2), images.size(3));
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
    x = block->forward(x, trace != nullptr ? &trace->blocks.emplace_back() : nullptr);
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

ClassAttention::ClassAttention(int64_t dim, int64_t heads, bool qkv_bias) : heads_(heads) {
  qkv = register_module("qkv", std::make_shared<Linear>(dim, 3 * dim, qkv_bias));
  proj = register_module("proj", std::make_shared<Linear>(dim, dim, true));
}

torch::Tensor ClassAttention::forward(const torch::Tensor& cls, const torch::Tensor& tokens,
                                      torch::Tensor* weights) {
  const int64_t batch = tokens.size(0), dim = tokens.size(2), head = dim / heads_;
  auto of_cls = qkv->forward(cls);                           // [B, 1, 3C]
  auto of_tokens = qkv->forward_rows(tokens, dim, 2 * dim);  // [B, N, 2C]
  auto q = of_cls.narrow(2, 0, dim).view({batch, 1, heads_, head}).transpose(1, 2);
  auto kv = torch::cat({of_cls.narrow(2, dim, 2 * dim), of_tokens}, 1)
                .view({batch, -1, 2, heads_, head})
                .permute({2, 0, 3, 1, 4});  // [2, B, H, 1 + N, P]
  auto k = kv[0], v = kv[1];
  if (weights != nullptr) {
    const double scale = 1 / std::sqrt(static_cast<double>(head));
    *weights = (torch::matmul(q, k.transpose(2, 3)) * scale).softmax(-1).squeeze(2);
  }
  auto y = at::scaled_dot_product_attention(q, k, v);  // [B, H, 1, P]
  return proj->forward(y.transpose(1, 2).reshape({batch, 1, dim}));
}

ClassAttentionBlock::ClassAttentionBlock(const BlockConfig& config, int64_t heads, bool qkv_bias,
                                         bool tokens_norm)
    : tokens_norm_(tokens_norm) {
  norm1 = register_module("norm1", std::make_shared<LayerNorm>(config.dim));
  attn = register_module("attn", std::make_shared<ClassAttention>(config.dim, heads, qkv_bias));
  norm2 = register_module("norm2", std::make_shared<LayerNorm>(config.dim));
  mlp = register_module("mlp", std::make_shared<Mlp>(config));
  gamma1 = register_parameter("gamma1", torch::full({config.dim}, config.layer_scale));
  gamma2 = register_parameter("gamma2", torch::full({config.dim}, config.layer_scale));
}

ClassState ClassAttentionBlock::forward(const ClassState& x, bool last, torch::Tensor* weights) {
  auto normed = norm1->forward(x.tokens);
  auto attended = attn->forward(norm1->forward(x.cls), normed, weights);
  auto cls = norm2->forward(add_scaled(x.cls, gamma1, attended));
  ClassState out;
  out.cls = add_scaled(cls, gamma2, mlp->forward(cls));
  if (!last) {
    auto mixed = add_scaled(x.tokens, gamma1, normed);
    out.tokens = tokens_norm_ ? norm2->forward_doubled(mixed) : mixed * 2;
  }
  return out;
}

FourierPosition::FourierPosition(int64_t dim) {
  auto options = torch::nn::Conv2dOptions(kPositionChannels, dim, 1);
  token_projection =
      register_module("token_projection", std::make_shared<torch::nn::Conv2dImpl>(options));
}

torch::Tensor FourierPosition::cached_table(int64_t rows, int64_t columns) {
  const std::lock_guard lock(mutex_);
  const auto& weight = token_projection->weight;
  if (!table_.defined() || rows_ != rows || columns_ != columns ||
      table_.device() != weight.device() || table_.dtype() != weight.dtype()) {
    // Leaves inference mode, because training could not use a table from inference mode.
    const c10::InferenceMode plain(false);
    table_ = tensor_of(position_code(rows, columns)).to(weight.options());
    rows_ = rows;
    columns_ = columns;
  }
  return table_;
}

torch::Tensor FourierPosition::forward(int64_t rows, int64_t columns) {
  return torch::linear(cached_table(rows, columns), token_projection->weight.flatten(1),
                       token_projection->bias);
}

namespace {

using torch::Tensor;

// Updates running statistics as torch does, with the unbiased variance.
void update_running(torch::nn::BatchNorm2dImpl& norm, const Tensor& mean, const Tensor& variance,
                    int64_t rows) {
  const double momentum = *norm.options.momentum();
  const double unbiased = double(rows) / double(std::max<int64_t>(rows - 1, 1));
  norm.running_mean.lerp_(mean, momentum);
  norm.running_var.lerp_(variance * unbiased, momentum);
  norm.num_batches_tracked.add_(1);
}

// Batch norm with the statistics of the rows of all processes that share the batch.
Tensor shared_norm(Group& group, torch::nn::BatchNorm2dImpl& norm, const Tensor& z) {
  BatchMoments moments;
  const Tensor p = synced_batch_norm(group, z, norm.weight, norm.bias, norm.options.eps(), moments);
  const torch::NoGradGuard no_grad;
  update_running(norm, moments.mean, moments.variance, moments.rows);
  return p;
}

Tensor batch_normed(torch::nn::BatchNorm2dImpl& norm, const Tensor& z) {
  Group* group = BatchNormScope::group();
  if (group != nullptr && norm.is_training()) return shared_norm(*group, norm, z);
  if (norm.is_training() && z.numel() == z.size(1)) {
    fail_usage("One picture of one patch has no variance that batch norm could learn from; ",
               "give a larger batch or larger pictures.");
  }
  return norm.forward(z);
}

}  // namespace

PatchStem::PatchStem(int64_t in_channels, int64_t dim, int64_t patch, int64_t depth) {
  if (depth == 0) {
    const auto options = torch::nn::Conv2dOptions(in_channels, dim, patch).stride(patch);
    proj = patch_ = register_module("proj", std::make_shared<torch::nn::Conv2dImpl>(options));
    return;
  }
  proj = register_module("proj", std::make_shared<torch::nn::Module>("proj"));
  int64_t from = in_channels;
  for (int64_t rest = patch; rest > 1; rest /= 2) {
    const int64_t to = dim / (rest / 2);
    add_stage(from, to, 2);
    for (int64_t i = 1; i < depth; ++i) add_stage(to, to, 1);
    from = to;
  }
}

void PatchStem::add_stage(int64_t from, int64_t to, int64_t stride) {
  auto stage = proj->register_module(std::to_string(2 * stages_.size()),
                                     std::make_shared<torch::nn::Module>("stage"));
  auto options = torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false);
  stages_.push_back(
      {stage->register_module("0", std::make_shared<torch::nn::Conv2dImpl>(options)),
       stage->register_module("1", std::make_shared<torch::nn::BatchNorm2dImpl>(to))});
}

torch::Tensor PatchStem::forward(const torch::Tensor& images) {
  auto x = images;
  if (patch_ != nullptr) x = patch_->forward(x.contiguous(torch::MemoryFormat::ChannelsLast));
  for (size_t i = 0; i < stages_.size(); ++i) {
    // Calls contiguous(), because with one channel the first convolution may return channels first.
    x = stages_[i].conv->forward(x.contiguous(torch::MemoryFormat::ChannelsLast));
    x = batch_normed(*stages_[i].norm, x.contiguous(torch::MemoryFormat::ChannelsLast));
    if (i + 1 < stages_.size()) x = torch::gelu(x);
  }
  return x.permute({0, 2, 3, 1}).contiguous();
}

}  // namespace tost
