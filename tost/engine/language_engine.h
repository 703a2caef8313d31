// A language model that reads and writes at the speed of this machine: single tokens are bound by
// reading the weights, long texts by matrix products.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tost/engine/generate.h"
#include "tost/engine/language_prefill.h"
#include "tost/engine/language_step.h"

namespace tost {

struct TracedText;  // text_trace.h

// Many texts share it, each with a state of its own at a position of its own.
class EngineModel : public TextModel {
 public:
  // The weights are of this precision. `stored` is the content of their file, for each_weight().
  EngineModel(std::unique_ptr<LanguageWeights> weights, Precision precision, Layout layout,
              Arrays stored = {});

  const LanguageConfig& config() const override { return weights_->config; }
  Precision precision() const { return precision_; }
  void expect_texts() { step_.expect_texts(); }  // language_step.h
  Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) override;
  TokenScores score(const int64_t* ids, const int64_t* targets, int64_t batch, int64_t tokens,
                    LanguageState* state) override;
  // One token of each text: ids[i] after *states[i], another state for every text. Logits [texts,
  // vocab], in memory that the next step uses again if nobody holds it. What a text gets is that of
  // a step of it alone, bit for bit.
  Array step(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states);
  // Reads ids [B, T] after `state`: [B T, C] after the final norm.
  Array hidden(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state);
  // Of such rows [rows, C]: logits of the tokens that follow them [rows, vocab].
  Array logits(const Array& rows);
  // Reads a text of at least one token, and notes what its layers do with it.
  TracedText trace(const std::vector<int64_t>& ids);
  void each_weight(function_ref<void(const Array&)> visit) const override;

  // Also notes the tokens of one text, in one entry for each block.
  Array extend(const int64_t* ids, int64_t tokens, LanguageState& state,
               std::vector<TracedBlock>& traced);
  int64_t step_bytes() const { return weights_->step_bytes(); }  // of the weights, read once

 private:
  int64_t rows_by_steps() const;
  LanguagePrefill& prefill();
  void norm(const float* rows, int64_t count, float* to) const;
  // Reads texts; either result may be null.
  void read(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state, float* logits,
            float* hidden, std::vector<TracedBlock>* traced = nullptr);

  const std::unique_ptr<LanguageWeights> weights_;
  const Precision precision_;
  const Layout layout_;
  const Arrays stored_;
  LanguageStep step_;
  Array logits_;                            // of step()
  std::optional<LanguagePrefill> prefill_;  // made when first needed
};

}  // namespace tost
