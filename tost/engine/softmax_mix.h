// Softmax attention between the products of an engine: convolution, a cache of keys and values that
// grows with the text, and the gate.
#pragma once

#include <cstdint>

#include "tost/engine/language_state.h"

namespace tost {

// Of a mixer of softmax attention (nn/causal_attention.h), all but its linear maps.
struct SoftmaxWeights {
  int64_t heads = 0, dim = 0;
  int64_t window = 0;  // tokens that a token sees, with itself; 0: all
  Array filter;        // [taps, 3 C] float32; undefined without a convolution
};

// Finds or makes the caches of a state, with room for `tokens` more and no other owner. Throws a
// usage Error for a state of another model or number of texts.
class SoftmaxState {
 public:
  SoftmaxState(const SoftmaxWeights& weights, int64_t batch, int64_t tokens, Arrays& state);
  // Counts the new tokens after mixing.
  void keep();

  struct Cache {
    Array* array;
    int64_t room;  // tokens
  };
  Cache keys, values;  // [B, H, room, P]
  float* past = nullptr;
  int64_t cached, kept;  // tokens before and after the call
};

// The tokens of the texts that share a state.
struct SoftmaxMix {
  int64_t tokens = 0;            // T, of each of B texts
  const float* parts = nullptr;  // [B T, 3 C]: q, k, v
  const float* gate = nullptr;   // [B T, C], before the SiLU; null without
  float* y = nullptr;            // [B T, C], the result
  const SoftmaxState* state = nullptr;
};

// Bytes of workspace, on a cache line, for one call of mix_softmax().
int64_t mix_softmax_workspace(const SoftmaxWeights& weights, int64_t tokens, int64_t cached);
// One of the B H heads of all texts. They share nothing, so threads may take one each.
void mix_softmax(const SoftmaxWeights& weights, const SoftmaxMix& mix, int64_t index,
                 void* workspace);

}  // namespace tost
