// Classifiers of token sequences and of pairs of sequences, as in the Long Range Arena (arXiv
// 2011.04006): embedding, positions, blocks with any token mixer, pooling, head.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/kinds/sequence/config.h"
#include "tost/nn/block.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// Makes the input of the blocks: token table, positions, class token.
class SequenceEmbedding : public torch::nn::Module {
 public:
  explicit SequenceEmbedding(const SequenceConfig& config);

  // Maps ids [B, N] to [B, N, C], or to [B, N + 1, C] with the class token first, as in the
  // benchmark (arXiv 2011.04006). Row 0 of the table, for padding, gets no gradient. Under a
  // TokenSumsScope, the first process has the class token in addition to its tokens.
  torch::Tensor forward(const torch::Tensor& ids);

  // Draws the tables by torch's default generator: tokens with deviation 1, learned positions with
  // 0.02, as in the benchmark (arXiv 2011.04006).
  void draw_weights();

  std::shared_ptr<Embedding> tokens;     // [vocab, C]
  std::shared_ptr<Embedding> positions;  // [position_count(), C]; null unless learned
  torch::Tensor cls_token;               // [1, 1, C], starts at 0; undefined with mean pooling

 private:
  bool sinusoidal_;
  SinusoidalTable waves_;
};

// A padded batch of sequences.
struct SequenceInput {
  torch::Tensor ids;      // [B, N] int64, 1 ... vocab - 1; after each sequence anything, usually 0
  torch::Tensor lengths;  // [B] int64, 1 ... N: its tokens; undefined: N each
};

// Throws the data Error of SequenceClassifier::forward() for input that the model would refuse. On
// a GPU, checks only shapes and types.
void check_sequence_input(const SequenceConfig& config, const SequenceInput& input);

// The head of a model of pairs: concatenates a, b, a * b and a - b, and applies two layers with
// GELU between them.
class PairHead : public torch::nn::Module {
 public:
  explicit PairHead(const SequenceConfig& config);

  // Maps a, b [B, C] to logits [B, classes].
  torch::Tensor forward(const torch::Tensor& a, const torch::Tensor& b) const;

  std::shared_ptr<Linear> fc1, fc2;  // [MLP width, 4 C], [classes, MLP width]
};

class SequenceClassifier : public torch::nn::Module {
 public:
  // Draws weights by init_linears() (layers.h) and draw_weights() of the mixers and the embedding.
  explicit SequenceClassifier(const SequenceConfig& config,
                              WeightInit init = WeightInit::kOfficial);

  const SequenceConfig& config() const { return config_; }

  // Computes logits [B, classes] of single sequences on the model's device. ids and lengths are
  // both on the model's device, or both on the CPU, from where they are moved after checks. Logits
  // depend only on the sequence, not on the padding. Throws a data Error for a model of pairs. On
  // the CPU, throws a data Error for ids outside the vocabulary, sequences without tokens, and
  // sequences beyond max_length if positions are learned. Under a TokenSumsScope, ids are a part of
  // every sequence and lengths, from 0 on, count the valid ids of the parts. Every process gets the
  // logits of the whole sequences.
  torch::Tensor forward(const SequenceInput& input);
  // Computes logits of pairs, by a model of pairs. Both inputs have B sequences.
  torch::Tensor forward(const SequenceInput& first, const SequenceInput& second);

  // Computes the vector of each sequence before the head [B, C]. With `trace` also traces each
  // block; a class token is the first token.
  torch::Tensor encode(const SequenceInput& input, std::vector<BlockTrace>* trace = nullptr);

 private:
  torch::Tensor pool(const torch::Tensor& x, const torch::Tensor& lengths) const;

  SequenceConfig config_;
  std::shared_ptr<SequenceEmbedding> embed_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;         // of single sequences
  std::shared_ptr<PairHead> pair_head_;  // of pairs
};

std::shared_ptr<SequenceClassifier> make_sequence_classifier(
    const SequenceConfig& config, WeightInit init = WeightInit::kOfficial);

// Presets for the six tasks of the Long Range Arena (listops, text, retrieval, image, pathfinder,
// pathx): tost_lra_TASK with the benchmark's base sizes, tost_lra for all tasks, tost_s4_TASK with
// the sizes of S4's models. tost_seq_tiny is for first experiments.
std::vector<std::string> sequence_preset_names();
SequenceConfig sequence_preset(const std::string& name);

// Estimates the smallest number of bytes for a training step on `batch` sequences of `tokens`
// tokens, within a factor of about 1.5 of measurements: parameters, gradients, moments of AdamW,
// and values saved for backward.
int64_t sequence_training_bytes(const SequenceConfig& config, int64_t batch, int64_t tokens);

}  // namespace tost
