// Many tokens through a language model, bound by its matrix products.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/base/checked.h"
#include "tost/engine/language_weights.h"
#include "tost/engine/packed_linear.h"

namespace tost {

// How long the weights are in memory in the form that products read.
enum class Layout : uint8_t {
  kStored,   // from the first call on: for many calls
  kPassing,  // half a block at a time, laid out in each call; or steps read the text instead
};

// Whether many rows are multiplied in bfloat16: for weights narrower than float32, if this CPU
// multiplies bfloat16.
bool multiplies_bfloat16(const LanguageWeights& weights);

// A thread takes a tile of tokens from a mixer's result through the block's MLP to the next mixer's
// input, so that only the residual stream and the mixers' tokens go through memory.
// Not thread-safe. `weights` outlive it.
class LanguagePrefill {
 public:
  LanguagePrefill(const LanguageWeights& weights, Layout layout);

  // Reads valid ids [B, T] after `state`, which has an entry for every block. Returns the residual
  // stream [B T, C] float32, valid until the next call. The caller moves the state's position.
  // Takes memory for B T tokens. Throws a usage Error for a state of another batch.
  const float* run(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state);

  // The head on rows [count, C] after the final norm: logits [count, vocab].
  void head(const float* rows, int64_t count, float* logits);

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

  // The size of a tile's rows of so many columns between products.
  int64_t tile_bytes_of(int64_t columns) const {
    return aligned(tile_rows_ * columns * (narrow_ ? 2 : 4));
  }
  void lay_out(int64_t block, bool opening);
  void reserve(int64_t rows);
  void embed(const int64_t* ids);
  void over_tiles(int64_t closed, int64_t opened);
  void close(int64_t block, const Tile& tile);  // from a mixer's result to the block's end
  void open(int64_t block, const Tile& tile);   // from a block's beginning to its mixer's input
  void shift(const Array& bias, const Tile& tile);
  void norm(const NormWeight& norm, const Tile& tile, void* y, bool narrow);
  void mix(int64_t block);
  float* mixed();
  void tssa(const LanguageBlockWeights& block, Arrays& own, bool narrow);
  void means(const LanguageBlockWeights& block, Arrays& own);
  void delta(const LanguageBlockWeights& block, Arrays& own);
  void softmax(const LanguageBlockWeights& block, Arrays& own);

  const LanguageWeights& weights_;
  const int64_t dim_;
  const bool narrow_;  // tokens between products in bfloat16
  const Packing packing_;
  const Layout layout_;
  const int64_t tile_rows_;
  std::vector<Block> blocks_;
  PackedLinear head_;          // laid out when first needed
  int64_t product_bytes_ = 0;  // scratch of a product
  int64_t hidden_columns_ = 0;
  // Of all rows: the residual stream; what mixers read and give, float32 or bfloat16; the results
  // of mixers before rounding, and tokens after a convolution.
  Array x_, w_, y_, mixed_, base_;
  // Memberships of group means or strengths of the delta rule, a mixer's gate, and forgetting.
  Array pi_, gate_, forget_;
  // Of the present call.
  int64_t batch_ = 0, tokens_ = 0;
  LanguageState* state_ = nullptr;
};

}  // namespace tost
