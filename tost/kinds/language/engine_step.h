// A few tokens through a whole language model, bound by reading the weights: every thread makes its
// share of each product's outputs and waits for the others once a product.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tost/kernels/tssa_causal.h"
#include "tost/kinds/language/engine_weights.h"

namespace tost {

// Not thread-safe. `weights` must live on.
class LanguageStep {
 public:
  explicit LanguageStep(const LanguageWeights& weights);

  // Reads ids [B, T] int64, contiguous and valid, B T from 1 to kernels::kMostFewRows, after
  // `state`, which has an entry for every block. logits: [B, vocab] of the token after the last, or
  // null. Moving the state's position is left to the caller. Throws a usage Error for a state of
  // another batch.
  void run(const torch::Tensor& ids, LanguageState& state, float* logits);

  // The head on rows [count, C] that have passed the final norm: logits [count, vocab].
  void head(const float* rows, int64_t count, float* logits) const;

 private:
  enum class Work : uint8_t { kIn, kTssa, kMeans, kOut, kFc, kProj, kHead, kAttention, kModule };
  struct Stage {
    Work work;
    int64_t block;
  };
  struct Range {
    int64_t begin, end;
  };

  void add_stages();
  void reserve(int threads);
  float* normed(int thread);
  void embed(const int64_t* ids);
  void prepare_states(LanguageState& state);
  void prepare_workspace();
  void work(const Stage& stage, int thread, int threads);
  void norm_rows(const NormWeight& norm, const float* x, int64_t stride, int64_t rows,
                 float* y) const;
  // This thread's outputs of the product, which it returns; with gamma added onto y.
  Range multiply(const StepWeight& weight, const float* x, int64_t rows, float* y,
                 const torch::Tensor* gamma, int thread, int threads);
  void expand(const LanguageBlockWeights& block, const float* x, int thread, int threads);
  kernels::CausalForwardArgs tssa_args() const;
  void tssa(const LanguageBlockWeights& block, double* statistics) const;
  void means(const LanguageBlockWeights& block, const MeansState& state);
  void call_module(const Stage& stage, LanguageState& state);

  const LanguageWeights& weights_;
  const int64_t dim_, widest_;
  std::vector<Stage> stages_;
  // kMostFewRows rows each: the residual stream, what a mixer reads and gives, the MLP between its
  // products.
  torch::Tensor x_, w_, y_, sums_, hidden_;
  torch::Tensor pi_, base_;  // of group means: [rows, H], [rows, C]
  torch::Tensor own_;        // scratch of every thread
  int64_t own_bytes_ = 0;
  torch::Tensor workspace_;  // of the operator
  // Of the present call.
  int64_t batch_ = 0, tokens_ = 0, position_ = 0;
  std::vector<double*> statistics_;  // a block's state, null where it has none
  std::vector<std::optional<MeansState>> means_;
  float* logits_ = nullptr;
};

}  // namespace tost
