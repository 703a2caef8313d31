// A decoding step of a language model, for a few tokens; reading the weights bounds the time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tost/engine/language_weights.h"
#include "tost/engine/threads.h"
#include "tost/kernels/tssa_causal.h"

namespace tost {

// Passes a few tokens through a whole language model. Every thread computes a share of each
// product's outputs, and waits for the others once a product. `weights` outlive it.
class LanguageStep {
 public:
  explicit LanguageStep(const LanguageWeights& weights);

  // Reads valid ids [B, T], at least one, after `state`, which has an entry for every block. Writes
  // the logits [B, vocab] after the last token, unless `logits` is null. The caller must update the
  // state's position. Throws a usage Error for a state of another batch. With `traced`, which has
  // an entry for every block, B is 1; the entries get the numbers of these tokens.
  void run(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state, float* logits,
           std::vector<TracedBlock>* traced = nullptr);

  // From now on run_texts() multiplies weights of bfloat16 by rows rounded to bfloat16, if this CPU
  // can: faster for many texts, with the rounding of long texts.
  void expect_texts();
  // Reads one token of each of several texts at any positions: ids[i] after *states[i], which has
  // an entry for every block and belongs to one text. Writes logits [texts, vocab]. A text gets the
  // same bits as in a separate call. The caller must update positions.
  void run_texts(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states,
                 float* logits);

  // The residual stream [B, T, C] after the last call, before the final norm.
  const float* stream() const { return x_.data(); }
  // Computes logits [count, vocab] of rows [count, C] after the final norm.
  void head(const float* rows, int64_t count, float* logits);

 private:
  enum class Work : uint8_t { kIn, kMix, kOut, kFc, kProj, kHead };
  struct Stage {
    Work work;
    size_t block;
    const StepWeight* map;  // that takes most of the time, or null
  };
  struct Head {
    size_t state;  // of the block and the text
    int64_t first_row, index;
  };

  int64_t output_unit(int64_t rows) const;
  void reserve(int threads);
  void run_stages(const int64_t* ids, float* logits);
  // Of a thread: rows after a norm, then inputs in a prepared layout.
  float* scratch(const StagePart& part) {
    return reinterpret_cast<float*>(scratch_.mutable_data<char>() + part.thread * scratch_bytes_);
  }
  void prepare_states();
  void prepare_workspace(int threads);
  int64_t parts_of(const Stage& stage, int threads) const;
  void work(const Stage& stage, const StagePart& part);
  void* workspace(const StagePart& part) {
    return workspace_.mutable_data<char>() + part.thread * workspace_bytes_;
  }
  const float* normed(const NormWeight& norm, int64_t first, int64_t rows, const StagePart& part);
  // Computes outputs of a part and returns their range; with gamma, adds them to y.
  std::pair<int64_t, int64_t> multiply(const StepWeight& weight, const float* x, int64_t rows,
                                       float* y, const Array* gamma, const StagePart& part);
  void expand(const LanguageBlockWeights& block, const float* x, const StagePart& part);
  kernels::CausalForwardArgs tssa_args(int64_t text);
  void trace(const Stage& stage);
  void tssa(const Stage& stage, const StagePart& part);
  void means(const Stage& stage, const StagePart& part);
  size_t of_text(const Stage& stage, int64_t text) const {
    return stage.block * states_.size() + size_t(text);
  }
  Head head_of(const Stage& stage, const StagePart& part) const;
  void delta(const Stage& stage, const StagePart& part);
  void softmax(const Stage& stage, const StagePart& part);

  const LanguageWeights& weights_;
  const int64_t dim_, widest_;
  std::vector<Stage> stages_;
  // Buffers of room_ rows: residual stream, input and output of a mixer, hidden values of the MLP.
  Array x_, w_, y_, sums_, hidden_;
  // [rows, H], of the delta rule also [rows, steps H]; [rows, C] after a convolution; [rows, C]
  Array pi_, forget_, base_, gate_;
  int64_t room_ = 0;
  Array scratch_;  // of every thread
  int64_t scratch_bytes_ = 0;
  Array workspace_;  // of the operator, of every thread
  int64_t workspace_bytes_ = 0;
  bool narrow_ = false;  // the products of run_texts() are of bfloat16, on rounded rows
  bool rounds_ = false;  // in this call
  std::vector<TracedBlock>* traced_ = nullptr;
  Array before_;  // traced_: the residual stream before the block
  // Data of the current call; states_ has one entry for all rows, or one for each row.
  int64_t batch_ = 0, tokens_ = 0;
  std::vector<LanguageState*> states_;
  // Of block and text, null where it has none: statistics, and the tokens of a convolution.
  std::vector<double*> statistics_;
  std::vector<float*> past_;
  std::vector<std::optional<MeansState>> means_;
  std::vector<std::optional<DeltaState>> deltas_;
  std::vector<std::optional<SoftmaxState>> softmaxes_;
  float* logits_ = nullptr;
};

}  // namespace tost
