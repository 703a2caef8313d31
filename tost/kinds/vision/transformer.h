// The vision network of the official code: stem, Fourier position, blocks, class attention, head.
// One skeleton for all three families; only the token mixer differs.
#pragma once

#include <memory>
#include <vector>

#include "tost/kinds/vision/class_attention.h"
#include "tost/kinds/vision/fourier_position.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/patch_stem.h"
#include "tost/nn/block.h"

namespace tost {

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
