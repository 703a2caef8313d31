// Causal language models: token ids in, logits of the next token out. ToST-GPT and its softmax
// counterpart (arXiv 2412.17810, Table 4) with the official code's names, and models without a
// limit of context.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tost/engine/generate.h"
#include "tost/kinds/language/config.h"
#include "tost/nn/block.h"
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

  // x [B, T, C] → [B, T, C], of which only x[:, T - 1] is read.
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> fc1_, fc2_;  // [C, C]
  SinusoidalTable positions_;
};

// Another way of computing a language model's functions of the same name, faster than the modules.
// An undefined tensor selects the modules as fallback. Nothing has happened then.
class LanguageReader {
 public:
  virtual ~LanguageReader() = default;
  virtual torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) = 0;
  virtual torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state) = 0;
  virtual torch::Tensor logits(const torch::Tensor& hidden) = 0;
};

// Throws the data Error of LanguageModel::forward() for ids it would not read after `position`
// tokens. For ids on a GPU only shape and type are checked.
void check_ids(const LanguageConfig& config, const torch::Tensor& ids, int64_t position = 0);

class LanguageModel : public torch::nn::Module, public TextModel {
 public:
  // Weights drawn as in the official code from torch's default generator, or left uninitialised.
  explicit LanguageModel(const LanguageConfig& config, WeightInit init = WeightInit::kOfficial);

  const LanguageConfig& config() const override { return config_; }
  int64_t max_context() const { return tost::max_context(config_); }

  // ids [B, T] int64 → logits [B, T, vocab] on the model's device: of the next tokens, or of an
  // auto-encoder of the same ones. The head is tied to the token table. Throws a data Error for ids
  // outside the vocabulary and sequences beyond max_context(). Ids and targets may be on the CPU,
  // where they are checked before they are moved. On a GPU their values are not checked, because
  // that would wait for it.
  torch::Tensor forward(const torch::Tensor& ids);
  // The same before the head: [B, T, C] after the final norm. A state throws a usage Error for an
  // auto-encoder, which reads a sequence whole.
  torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state = nullptr,
                       LanguageTrace* trace = nullptr);
  torch::Tensor logits(const torch::Tensor& hidden) const;
  // Mean cross-entropy in nats over the targets that are not -1. ids, targets [B, T].
  // `rows_of_targets`: target_rows() of the targets, for targets on a GPU.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets,
                     const torch::Tensor& rows_of_targets = {});
  // For targets on the CPU: the rows [n] whose targets are not -1, if these are few; else
  // undefined.
  static torch::Tensor target_rows(const torch::Tensor& targets);

  // Reads ids [B, T], T >= 1, after what `state` has seen, without gradients: logits of the token
  // after the last one [B, vocab]. In a default-constructed state no token was read.
  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state);
  Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) override;
  Arrays weights() const override;
  LanguageState on_cpu(LanguageState state) const override;

  // From now on `reader` computes extend(), hidden() and logits() in evaluation mode, without
  // gradients and traces; null: the modules again. Weights must not change meanwhile.
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

// Bytes that a model in evaluation mode keeps of ids [1, T] once it has read them: of its state, or
// of the vector that an auto-encoder decodes.
int64_t context_bytes(LanguageModel& model, const torch::Tensor& ids);

std::shared_ptr<LanguageModel> make_language_model(const LanguageConfig& config,
                                                   WeightInit init = WeightInit::kOfficial);

// {tost_gpt,gpt,tost_means}_{base,medium,large,char,char_gpu,words}: the official models, their
// softmax counterparts, and ours on group means.
std::vector<std::string> language_preset_names();
// tost_recall and, without positions and with a convolution, tost_recall_stream: small models for
// tasks of recall, which language_preset() gives too.
std::vector<std::string> recall_preset_names();
LanguageConfig language_preset(const std::string& name);

}  // namespace tost
