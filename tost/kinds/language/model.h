// Causal language models, which map token ids to logits of the next token. The models are ToST-GPT
// and its softmax counterpart (arXiv 2412.17810, Table 4), with the names of the official code, and
// models without a context limit.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tost/engine/generate.h"
#include "tost/engine/language_config.h"
#include "tost/nn/block.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// Traces of a forward pass, one entry a block.
struct LanguageTrace {
  std::vector<BlockTrace> blocks;
};

// The end of an auto-encoder: adds each position to the last token's vector and applies two layers
// with norms and GELU.
class TokenDecoder : public torch::nn::Module {
 public:
  explicit TokenDecoder(const LanguageConfig& config);

  // Maps x [B, T, C] to [B, T, C]; reads only x[:, T - 1].
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> fc1_, fc2_;  // [C, C]
  SinusoidalTable positions_;
};

// Computes a language model's functions of the same names, faster than modules do.
class LanguageReader {
 public:
  virtual ~LanguageReader() = default;
  virtual torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) = 0;
  virtual torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state) = 0;
  virtual torch::Tensor logits(const torch::Tensor& hidden) = 0;
};

// Throws the data Error of LanguageModel::forward() for ids that it cannot read after `position`
// tokens. Checks only shape and type of ids on a GPU.
void check_ids(const LanguageConfig& config, const torch::Tensor& ids, int64_t position = 0);

class LanguageModel : public torch::nn::Module, public TextModel {
 public:
  // Draws weights as in the official code, by torch's default generator, or leaves them
  // uninitialised.
  explicit LanguageModel(const LanguageConfig& config, WeightInit init = WeightInit::kOfficial);

  const LanguageConfig& config() const override { return config_; }
  int64_t max_context() const { return tost::max_context(config_); }

  // Maps ids [B, T] int64 to logits [B, T, vocab] of the next tokens (of an auto-encoder: of the
  // same tokens) on the model's device. The head is tied to the token table. Throws a data Error
  // for ids outside the vocabulary and sequences beyond max_context(). Ids and targets on the CPU
  // are checked and then moved. Values on a GPU are not checked, because a check would wait.
  torch::Tensor forward(const torch::Tensor& ids);
  // The hidden vectors before the head: [B, T, C] after the final norm. An auto-encoder throws a
  // usage Error for a state, because it reads whole sequences.
  torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state = nullptr,
                       LanguageTrace* trace = nullptr);
  torch::Tensor logits(const torch::Tensor& hidden) const;
  // The mean cross-entropy in nats over the targets that are not -1. ids and targets are [B, T].
  // `rows_of_targets` is target_rows() of targets on a GPU.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets,
                     const torch::Tensor& rows_of_targets = {});
  // The rows [n] of targets on the CPU that are not -1, or undefined if there are many such rows.
  static torch::Tensor target_rows(const torch::Tensor& targets);

  // Reads ids [B, T], T >= 1, after `state`, without gradients; returns logits [B, vocab] of the
  // token after the last one. A default-constructed state has read no token.
  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state);
  // The functions for any model work in evaluation mode, and leave the mode as it was.
  Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) override;
  TokenScores score(const int64_t* ids, const int64_t* targets, int64_t batch, int64_t tokens,
                    LanguageState* state) override;
  void each_weight(function_ref<void(const Array&)> visit) const override;
  LanguageState on_cpu(LanguageState state) const override;

  // Makes `reader` compute extend(), hidden() and logits() in evaluation mode, without gradients
  // and traces; null selects the modules again. Weights must not change while a reader is set.
  void read_by(std::shared_ptr<LanguageReader> reader) { reader_ = std::move(reader); }

  // Its parts, for engines.
  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }

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

// The bytes of a model's state after ids [1, T], or of the vector that an auto-encoder decodes.
int64_t context_bytes(LanguageModel& model, const torch::Tensor& ids);

std::shared_ptr<LanguageModel> make_language_model(const LanguageConfig& config,
                                                   WeightInit init = WeightInit::kOfficial);

// The presets {tost_gpt,gpt,tost_means}_{base,medium,large,char,char_gpu,words}: the official
// models, their softmax counterparts, and our models of group means.
std::vector<std::string> language_preset_names();
// The presets tost_recall and tost_recall_stream: small models for tasks of recall.
// tost_recall_stream has a convolution instead of positions.
std::vector<std::string> recall_preset_names();
LanguageConfig language_preset(const std::string& name);

// Throws a usage Error with the reason for an impossible configuration.
void validate(const LanguageConfig& config);

// The arguments of the constructors of a model's mixers.
CausalMixerConfig mixer_config(const LanguageConfig& config);

}  // namespace tost
