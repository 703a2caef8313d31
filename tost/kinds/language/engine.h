// A causal language model that reads and writes at the speed of this machine: weights laid out
// once, no autograd, a decoding step bound by reading the weights and long texts by matrix
// products.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// Precisions are those of weights; arithmetic and state are float32 and float64 as in the model.
// Linear maps and the token table are rounded to the types of nn/precision.h; fp32, the model's own
// numbers, agrees with it to rounding.
// Where many tokens are read at once and the precision is not fp32, the factors of the matrix
// products are bfloat16 if this CPU multiplies those. Whole texts, pieces of them and single tokens
// agree within those roundings. Biases, norms and LayerScale stay float32 (biases bfloat16 in
// bf16).
//
// Not thread-safe. Uses torch's number of threads.
class LanguageEngine : public LanguageReader {
 public:
  // Shares the model's tensors, which must not change while the engine lives; the model itself is
  // not needed after this. Throws a data Error naming the tensor where weights that are not
  // finite would become integers.
  explicit LanguageEngine(const LanguageModel& model, Precision precision = Precision::kFp32);
  ~LanguageEngine() override;
  LanguageEngine(const LanguageEngine&) = delete;
  LanguageEngine& operator=(const LanguageEngine&) = delete;

  const LanguageConfig& config() const;
  Precision precision() const { return precision_; }

  // As LanguageModel::extend(), with the same state: each may continue where the other stopped.
  // Result float32.
  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) override;
  // One token of each of several texts at their own positions: ids[i] after *states[i], another
  // state for every text. Result [texts, vocab] float32. What a text gets is that of a step of it
  // alone, bit for bit, whatever the texts it is read with.
  torch::Tensor step(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states);
  // From now on a step reads weights of bfloat16 by tile units, where this CPU has them: as fast
  // for many texts as for one, with activations rounded as where many tokens are read at once.
  void expect_texts();
  // As LanguageModel::hidden(): [B, T, C] float32 after the final norm.
  torch::Tensor hidden(const torch::Tensor& ids, LanguageState* state = nullptr) override;
  // As LanguageModel::logits(), with the head in this precision.
  torch::Tensor logits(const torch::Tensor& hidden) override;

  // Of the weights that a step reads once.
  int64_t step_bytes() const;

 private:
  struct Parts;

  Precision precision_;
  std::unique_ptr<Parts> parts_;
};

// Makes an engine of this precision the model's reader until the engine that is returned and
// kept by the model is replaced.
std::shared_ptr<LanguageEngine> read_by_engine(const std::shared_ptr<LanguageModel>& model,
                                               Precision precision);

// Puts a loaded model where it is to run.
// On the CPU the inference engine reads it at that precision; an auto-encoder is read by its
// modules, in fp32. On a GPU it is moved there and its modules run at fp32 or bf16, see
// scope_precision(). Throws a usage Error for other precisions.
void place_language(const std::shared_ptr<LanguageModel>& model, Precision precision,
                    torch::Device device);

// What it can be placed with: on the CPU every precision, on a GPU those of modules.
Precisions language_precisions(torch::Device device);

// The PrecisionScope its calls stand in: autocast on a GPU, none where the engine sees to it.
Precision scope_precision(Precision precision, torch::Device device);

}  // namespace tost
