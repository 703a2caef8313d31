// The inference engine of causal language models: weights are laid out once, without autograd.
// Reading the weights bounds the time of a decoding step; matrix products bound the time of long
// texts.
#pragma once

#include <cstdint>
#include <memory>

#include "tost/engine/language_engine.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// A precision is that of the weights; arithmetic and state are float32 and float64 as in the model.
// Linear maps and the token table are rounded to the precision; fp32 agrees with the model up to
// rounding. If many tokens are read at once and the precision is not fp32, the factors of matrix
// products are bfloat16, provided that the CPU multiplies bfloat16. Reading a text at once, in
// pieces or by token gives the same results up to rounding. Biases, norms and LayerScale stay
// float32 (biases bfloat16 in bf16).
//
// Not thread-safe. The engine uses torch's number of threads.
class LanguageEngine : public LanguageReader {
 public:
  // Shares the model's tensors, which must not change while the engine exists; the model is not
  // needed later. Throws a data Error naming a tensor to be quantised that is not finite, and for a
  // model with a mixer that the engine lacks.
  explicit LanguageEngine(const LanguageModel& model, Precision precision = Precision::kFp32);

  const LanguageConfig& config() const { return engine_->config(); }

  // Does the same as LanguageModel::extend(), with the same state, so that both can alternate.
  // Result float32.
  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) override;
  // Does the same as LanguageModel::hidden(): returns [B, T, C] float32 after the final norm.
  torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state = nullptr) override;
  // Does the same as LanguageModel::logits(), with the head in the engine's precision.
  torch::Tensor logits(const torch::Tensor& hidden) override;

 private:
  std::unique_ptr<EngineModel> engine_;
};

// Makes an engine of this precision compute the model's functions until another engine replaces it.
// Modules on rounded weights compute them if the engine lacks a mixer of the model.
void read_by_engine(const std::shared_ptr<LanguageModel>& model, Precision precision);

// The model as a server reads it. Throws as the constructor of LanguageEngine.
std::unique_ptr<EngineModel> text_engine(const LanguageModel& model, Precision precision);

// Prepares a loaded model for a device. On the CPU, the inference engine runs the model in
// `precision`, but modules run an auto-encoder, in fp32. On a GPU, modules run the model in fp32 or
// bf16 (see scope_precision()). Throws a usage Error for an unsupported precision.
void place_language(const std::shared_ptr<LanguageModel>& model, Precision precision,
                    torch::Device device);

// The possible precisions of a model: on the CPU all, on a GPU those of modules.
Precisions language_precisions(torch::Device device);

// The precision for a PrecisionScope around a model's calls: autocast on a GPU, nothing for the
// engine.
Precision scope_precision(Precision precision, torch::Device device);

}  // namespace tost
