// What a language engine takes from a model of modules, and its way through many tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/engine/language_step.h"
#include "tost/kinds/language/model.h"
#include "tost/ops/packed_linear.h"

namespace tost {

// The weights of a model, which share its tensors where they can, so that these must not change.
// Mixers that the engine lacks are called as modules. Throws a data Error naming the tensor where
// weights that are not finite would become integers.
LanguageWeights weights_of(const LanguageModel& model, Precision precision);

// Many tokens through a whole language model, bound by its matrix products: a thread takes a tile
// of tokens from a mixer's result through the block's MLP to the next mixer's input, so that
// nothing but the residual stream and the mixers' tokens goes through memory.
// Not thread-safe. `weights` outlive it.
class LanguagePrefill {
 public:
  // Lays out the weights once more, in bfloat16 where they are held in less than float32 and this
  // CPU multiplies bfloat16, else in float32.
  explicit LanguagePrefill(const LanguageWeights& weights);

  // Reads ids [B, T] int64, contiguous and valid, after `state`, which has an entry for every
  // block: the residual stream [B T, C] float32, valid until the next call. Moving the state's
  // position is left to the caller. Takes memory for B T tokens. Throws a usage Error for a state
  // of another batch.
  const torch::Tensor& run(const torch::Tensor& ids, LanguageState& state);

  // One token of each of several texts: as LanguageStep::run_texts(), the residual stream [texts,
  // C].
  const torch::Tensor& run_texts(const std::vector<int64_t>& ids,
                                 const std::vector<LanguageState*>& states);
  // Whether its products give each row the same bits however many are multiplied.
  bool rows_alone() const;

  // The head on rows [n, C] float32 contiguous that have passed the final norm: logits [n, vocab].
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
  // Of all rows: the residual stream, and as raw memory what mixers read and give.
  torch::Tensor x_, w_, y_;
  // Memberships of group means or strengths of the delta rule, its gate and its forgetting.
  torch::Tensor pi_, gate_, forget_;
  // Of the present call: states_ has one entry of batch_ texts, or batch_ entries of one.
  int64_t batch_ = 0, tokens_ = 0;
  std::vector<LanguageState*> states_;
};

}  // namespace tost
