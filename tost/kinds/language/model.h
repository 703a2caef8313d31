// Causal language models: token ids in, logits of the next token out. ToST-GPT and its softmax
// counterpart (arXiv 2412.17810, Table 4) with the official code's names, and models without a
// limit of context.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tost/kinds/language/config.h"
#include "tost/nn/block.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// The traces of a forward pass, one for each block.
struct LanguageTrace {
  std::vector<BlockTrace> blocks;
};

// The state of a model after the tokens it has read: one state for each block.
struct LanguageState {
  int64_t position = 0;  // tokens read
  std::vector<MixerState> blocks = {};
};
// The bytes of all tensors, with the unused part of their buffers.
int64_t state_bytes(const LanguageState& state);

// The decoder of an auto-encoder: adds each position to the last token's vector, and applies two
// layers with norms and GELU.
class TokenDecoder : public torch::nn::Module {
 public:
  explicit TokenDecoder(const LanguageConfig& config);

  // Maps x [B, T, C], of which it reads only x[:, T - 1], to [B, T, C].
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> fc1_, fc2_;  // [C, C]
  SinusoidalTable positions_;
};

// Computes functions of a language model faster than its modules. A function that returns an
// undefined tensor has done nothing, and the modules serve as fallback.
class LanguageReader {
 public:
  virtual ~LanguageReader() = default;
  virtual torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) = 0;
  virtual torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state) = 0;
  virtual torch::Tensor logits(const torch::Tensor& hidden) = 0;
};

// The longest possible context: the block with learned positions, else the largest int64.
int64_t max_context(const LanguageConfig& config);

// Throws the data Error of LanguageModel::forward() for ids that it would refuse after `position`
// tokens. Of ids on a GPU checks only shape and type.
void check_ids(const LanguageConfig& config, const torch::Tensor& ids, int64_t position = 0);

class LanguageModel : public torch::nn::Module {
 public:
  // Draws weights as in the official code by torch's generator, or leaves them uninitialised.
  explicit LanguageModel(const LanguageConfig& config, WeightInit init = WeightInit::kOfficial);

  const LanguageConfig& config() const { return config_; }
  int64_t max_context() const { return tost::max_context(config_); }

  // Maps ids [B, T] int64 to logits [B, T, vocab] on the model's device: those of the next tokens,
  // or in an auto-encoder of the same tokens. The head is tied to the token table. Throws a data
  // Error for ids outside the vocabulary and sequences beyond max_context(). Ids and targets on the
  // CPU are checked and then moved; values on a GPU are not checked, because that would wait for
  // it.
  torch::Tensor forward(const torch::Tensor& ids);
  // Returns the vectors before the head, [B, T, C] after the final norm. Throws a usage Error for
  // an auto-encoder with a state, because it reads whole sequences.
  torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state = nullptr,
                       LanguageTrace* trace = nullptr);
  torch::Tensor logits(const torch::Tensor& hidden) const;
  // The mean cross-entropy in nats over the targets [B, T] that are not -1. For targets on a GPU,
  // `rows_of_targets` are their target_rows().
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets,
                     const torch::Tensor& rows_of_targets = {});
  // The rows [n] of targets on the CPU that are not -1, if these are few; else undefined.
  static torch::Tensor target_rows(const torch::Tensor& targets);

  // Reads ids [B, T], T >= 1, after the tokens of `state`, without gradients; returns logits [B,
  // vocab] of the next token. A default-constructed state has read no token.
  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state);

  // Lets `reader` compute extend(), hidden() and logits() in evaluation mode without gradients and
  // traces; null restores the modules. Weights must not change meanwhile.
  void read_by(std::shared_ptr<LanguageReader> reader) { reader_ = std::move(reader); }

  // Its parts, for engines.
  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }
  const torch::Tensor& token_table() const { return wte_->weight; }  // [vocab, C]
  torch::Tensor position_table() const;  // [block, C]; undefined without learned positions
  const LayerNorm& final_norm() const { return *ln_f_; }

 private:
  void draw_weights();
  bool uses_reader() const;

  LanguageConfig config_;
  std::shared_ptr<LanguageReader> reader_;
  std::shared_ptr<torch::nn::Module> transformer_;  // holds wte, wpe, h and ln_f
  std::shared_ptr<Embedding> wte_, wpe_;            // wpe_ null without learned positions
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<TokenDecoder> decoder_;  // of an auto-encoder, else null
  std::shared_ptr<LayerNorm> ln_f_;
};

// The bytes that a model in evaluation mode keeps after reading ids [1, T]: its state, or the
// vector that an auto-encoder decodes.
int64_t context_bytes(LanguageModel& model, const torch::Tensor& ids);

std::shared_ptr<LanguageModel> make_language_model(const LanguageConfig& config,
                                                   WeightInit init = WeightInit::kOfficial);

// {tost_gpt,gpt,tost_means}_{base,medium,large,char,char_gpu,words}: the official models, their
// softmax counterparts, and ours on group means.
std::vector<std::string> language_preset_names();
// The small models for tasks of recall, which language_preset() knows too: tost_recall, and
// tost_recall_stream with a convolution and without positions.
std::vector<std::string> recall_preset_names();
LanguageConfig language_preset(const std::string& name);

}  // namespace tost
