// The vision network of the official code: stem, Fourier position, blocks, class attention, head.
// All three families have the same network and differ only in the token mixer.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/block.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// The convolutional stem: n 3x3 convolutions of stride 2 for patch = 2ⁿ, with batch norm, and GELU
// between them. Each of the widths C/2ⁿ⁻¹, …, C/2, C has `depth` convolutions (officially one), all
// but the first of stride 1. Convolutions keep torch's default initialisation, as in the official
// code. Checkpoint keys are proj.{0,2,4,…}.{0 convolution, 1 batch norm}; odd numbers are the
// GELUs. With depth 0, `proj` is one linear map of each patch instead, as in a ViT.
class PatchStem : public torch::nn::Module {
 public:
  PatchStem(int64_t in_channels, int64_t dim, int64_t patch, int64_t depth = 1);

  // Maps [B, in_channels, Y, X] to contiguous [B, Y/patch, X/patch, C]; needs no transpose, because
  // convolutions run channels last.
  torch::Tensor forward(const torch::Tensor& images);

  std::shared_ptr<torch::nn::Module> proj;

 private:
  void add_stage(int64_t from, int64_t to, int64_t stride);

  struct Stage {
    std::shared_ptr<torch::nn::Conv2dImpl> conv;
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;
  };
  std::vector<Stage> stages_;
  std::shared_ptr<torch::nn::Conv2dImpl> patch_;  // null with convolutions
};

// The two-dimensional Fourier position code and its learned 1x1 projection. No parameter depends on
// the position, so any grid works.
class FourierPosition : public torch::nn::Module {
 public:
  explicit FourierPosition(int64_t dim);

  // Returns [rows * columns, C], to be added to row-major tokens. Caches the code (position_code())
  // of the last grid. Thread-safe.
  torch::Tensor forward(int64_t rows, int64_t columns);

  std::shared_ptr<torch::nn::Conv2dImpl> token_projection;  // 1x1, 64 → C

 private:
  torch::Tensor cached_table(int64_t rows, int64_t columns);

  std::mutex mutex_;
  int64_t rows_ = 0, columns_ = 0;
  torch::Tensor table_;
};

// Class attention: queries come from the class token only, keys and values from class and patch
// tokens. Keys `qkv` and `proj`. The weight for q, k and v is stored completely, as in checkpoints.
class ClassAttention : public torch::nn::Module {
 public:
  ClassAttention(int64_t dim, int64_t heads, bool qkv_bias);

  // Maps cls [B, 1, C] and tokens [B, N, C], both normalised, to [B, 1, C]. `weights`, unless null,
  // receives the class token's attention to itself and the patch tokens, [B, H, 1 + N].
  torch::Tensor forward(const torch::Tensor& cls, const torch::Tensor& tokens,
                        torch::Tensor* weights = nullptr);

  std::shared_ptr<Linear> qkv;   // [3C, C]
  std::shared_ptr<Linear> proj;  // [C, C]

 private:
  int64_t heads_;
};

// In the official block a normalised tensor serves as residual and as input of the branch, so patch
// tokens change, too. Patch tokens x with n = LN1(x) become 2 LN2(x + γ₁ n), or 2 (x + γ₁ n)
// without `tokens_norm`. The class token becomes c + γ₂ mlp(c) with c = LN2(cls + γ₁ attention).
struct ClassState {
  torch::Tensor cls;     // [B, 1, C]
  torch::Tensor tokens;  // [B, N, C]; undefined after the last block, where they are not needed
};

class ClassAttentionBlock : public torch::nn::Module {
 public:
  ClassAttentionBlock(const BlockConfig& config, int64_t heads, bool qkv_bias, bool tokens_norm);

  // With `last` the result has no tokens. `weights` is that of ClassAttention.
  ClassState forward(const ClassState& x, bool last, torch::Tensor* weights = nullptr);

  std::shared_ptr<LayerNorm> norm1, norm2;
  std::shared_ptr<ClassAttention> attn;
  std::shared_ptr<Mlp> mlp;
  torch::Tensor gamma1, gamma2;  // [C]

 private:
  bool tokens_norm_;
};

class VisionTransformer : public ImageClassifier {
 public:
  explicit VisionTransformer(const VisionConfig& config);

  torch::Tensor forward(const torch::Tensor& images) override;
  torch::Tensor forward_traced(const torch::Tensor& images, VisionTrace& trace) override;

  torch::Tensor cls_token;  // [1, 1, C]
  torch::Tensor registers;  // [1, R, C]; undefined without
  std::shared_ptr<PatchStem> patch_embed;
  std::shared_ptr<FourierPosition> pos_embeder;                // (sic)
  std::shared_ptr<torch::nn::ModuleListImpl> blocks;           // of Block
  std::shared_ptr<torch::nn::ModuleListImpl> cls_attn_blocks;  // of ClassAttentionBlock
  std::shared_ptr<LayerNorm> norm;
  std::shared_ptr<Linear> head;

 private:
  torch::Tensor embed(const torch::Tensor& images, VisionTrace* trace);
  torch::Tensor run_blocks(torch::Tensor x, VisionTrace* trace);
  torch::Tensor classify(const torch::Tensor& tokens, VisionTrace* trace);

  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::shared_ptr<ClassAttentionBlock>> class_blocks_;
};

}  // namespace tost
