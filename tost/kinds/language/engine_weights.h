// The weights that a language engine takes from a model, and the pass over many tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/engine/language_step.h"
#include "tost/engine/packed_linear.h"
#include "tost/kinds/language/model.h"

namespace tost {

// The weights of a model. Weights share the model's tensors if possible, so the tensors must not
// change. Mixers that the engine lacks run as modules. Throws a data Error naming a tensor to be
// quantised that is not finite.
LanguageWeights weights_of(const LanguageModel& model, Precision precision);

// Passes many tokens through a whole language model; matrix products bound the time. A thread
// computes a tile of tokens from a mixer's result through the MLP to the next mixer's input, so
// that only the residual stream and the mixers' tokens go through memory. Not thread-safe.
// `weights` outlive it.
class LanguagePrefill {
 public:
  // Lays out a second copy of the weights: in bfloat16 if the precision is not fp32 and this CPU
  // multiplies bfloat16, else in float32.
  explicit LanguagePrefill(const LanguageWeights& weights);

  // Reads contiguous valid ids [B, T] int64 after `state`, which has an entry for every block.
  // Returns the residual stream [B T, C] float32, valid until the next call. The caller must update
  // the state's position. Takes memory for B T tokens. Throws a usage Error for a state of another
  // batch.
  const torch::Tensor& run(const torch::Tensor& ids, LanguageState& state);

  // Reads one token of each of several texts, as LanguageStep::run_texts(); returns the residual
  // stream [texts, C].
  const torch::Tensor& run_texts(const std::vector<int64_t>& ids,
                                 const std::vector<LanguageState*>& states);
  // Whether products give a row the same bits for any number of rows.
  bool rows_alone() const;

  // Computes logits [n, vocab] of contiguous rows [n, C] float32 after the final norm.
  void head(const torch::Tensor& rows, const torch::Tensor& logits);

  int64_t bytes() const;  // of the blocks' weights laid out

 private:
  struct Block {
    PackedLinear in, out, fc, proj;     // out and proj times gamma
    Array out_shift, proj_shift;        // their biases times gamma; undefined without
    PackedLinear router, gate, forget;  // as LanguageBlockWeights
    std::vector<const PackedLinear*> maps() const {
      return {&in, &router, &gate, &forget, &out, &fc, &proj};
    }
  };
  struct Tile {
    int64_t first, rows;
    char* scratch;
  };

  void reserve(int64_t rows);
  const torch::Tensor& run_all(const int64_t* ids);
  void embed(const int64_t* ids);
  void over_tiles(int64_t block);
  void close(int64_t block, const Tile& tile);  // from a mixer's result to the block's end
  void open(int64_t block, const Tile& tile);   // from a block's beginning to its mixer's input
  void shift(const Array& bias, const Tile& tile);
  void norm(const NormWeight& norm, const Tile& tile, void* y, bool narrow);
  void mix(int64_t block);
  void mix_module(int64_t block, size_t text);
  void tssa(const LanguageBlockWeights& block, int64_t index, size_t text, int threads);
  void means(const LanguageBlockWeights& block, int64_t index, size_t text, int threads);
  void delta(const LanguageBlockWeights& block, int64_t index, size_t text, int threads);
  torch::Tensor rows_of(const torch::Tensor& buffer, int64_t width, bool narrow) const;

  const LanguageWeights& weights_;
  const int64_t dim_;
  const bool narrow_;  // tokens between products in bfloat16
  const int64_t tile_rows_;
  std::vector<Block> blocks_;
  PackedLinear head_;       // laid out when first needed
  int64_t tile_bytes_ = 0;  // scratch of a thread
  // Buffers for all rows: the residual stream, and input and output of mixers as raw memory.
  torch::Tensor x_, w_, y_;
  // Memberships of group means or strengths of the delta rule, its gate and its forgetting.
  torch::Tensor pi_, gate_, forget_;
  // Of the present call: states_ has one entry of batch_ texts, or batch_ entries of one.
  int64_t batch_ = 0, tokens_ = 0;
  std::vector<LanguageState*> states_;
};

}  // namespace tost
