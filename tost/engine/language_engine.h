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

class EngineModel : public TextEngine {
 public:
  // The weights are of this precision. `stored` is the content of their file, for each_weight().
  EngineModel(std::unique_ptr<LanguageWeights> weights, Precision precision, Layout layout,
              Arrays stored = {});

  const LanguageConfig& config() const override { return weights_->config; }
  Precision precision() const override { return precision_; }
  // With weights of bfloat16 that stay laid out, a step then reads them by tile units, if this CPU
  // has them: as fast for many texts as for one, with activations rounded as for long texts.
  void expect_texts() override;
  Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) override;
  Array step(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states) override;
  Array hidden(const int64_t* ids, int64_t tokens, LanguageState& state) override {
    return hidden(ids, 1, tokens, state);
  }
  // The same for several texts of one length: [B T, C].
  Array hidden(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state);
  Array logits(const Array& rows) override;
  void each_weight(function_ref<void(const Array&)> visit) const override;

  // Of the last token of the last step, as LanguageStep::memberships().
  const std::vector<float>& memberships() const { return step_.memberships(); }
  int64_t step_bytes() const { return weights_->step_bytes(); }  // of the weights, read once

 private:
  LanguagePrefill& prefill();
  void norm(const float* rows, int64_t count, float* to) const;
  // Reads texts; either result may be null.
  void read(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state, float* logits,
            float* hidden);

  const std::unique_ptr<LanguageWeights> weights_;
  const Precision precision_;
  const Layout layout_;
  const Arrays stored_;
  LanguageStep step_;
  std::optional<LanguagePrefill> prefill_;  // made when first needed
  bool tiles_ = false;                      // step() goes by prefill_
};

}  // namespace tost
