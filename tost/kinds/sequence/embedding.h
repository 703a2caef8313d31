// What stands before the blocks of a sequence classifier: token table, positions, class token.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "tost/kinds/sequence/config.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// Sines and cosines of the position, interleaved, at wave lengths from 2 pi to 10000 * 2 pi (arXiv
// 1706.03762): [tokens, dim] float32.
torch::Tensor sinusoidal_positions(int64_t tokens, int64_t dim);

class SequenceEmbedding : public torch::nn::Module {
 public:
  explicit SequenceEmbedding(const SequenceConfig& config);

  // ids [B, N] → [B, N, C], or [B, N + 1, C] with the class token in front, which then has position
  // 0 as in the benchmark (arXiv 2011.04006). No gradient reaches row 0 of the table. Under a
  // TokenSumsScope the class token is in the first place, before as many tokens as others hold.
  torch::Tensor forward(const torch::Tensor& ids);

  // Draws the tables from torch's default generator: tokens with deviation 1, learned positions
  // with 0.02, as in the benchmark (arXiv 2011.04006).
  void draw_weights();

  std::shared_ptr<Embedding> tokens;     // [vocab, C]
  std::shared_ptr<Embedding> positions;  // [position_count(), C]; null unless learned
  torch::Tensor cls_token;               // [1, 1, C], starts at 0; undefined with mean pooling

 private:
  torch::Tensor cached_waves(int64_t count);

  bool sinusoidal_;
  std::mutex mutex_;
  torch::Tensor waves_;  // of the longest sequence so far
};

}  // namespace tost
