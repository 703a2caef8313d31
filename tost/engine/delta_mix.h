// The delta rule between the products of a language engine: convolution, keys and queries of norm
// 1, strengths and rates of forgetting, the memory, and the norm of what is read.
#pragma once

#include <cstdint>

#include "tost/engine/language_state.h"

namespace tost {

// Of a mixer of the delta rule (nn/causal_delta.h), all but its linear maps.
struct DeltaWeights {
  int64_t parts() const { return 1 + 2 * steps; }  // of C columns: q, then every k, then every v
  int64_t bytes() const { return filter.bytes() + decay.bytes() + norm.bytes(); }

  int64_t heads = 0, dim = 0;
  int64_t steps = 1;     // updates of a token
  float beta_range = 1;  // largest strength of an update
  Array filter;          // [taps, parts C] float32; undefined without a convolution
  Array decay;           // [H] float32; undefined where nothing is forgotten
  Array norm;            // [P] float32
};

// The tokens of the texts that share a state, which is updated in place.
struct DeltaMix {
  int64_t tokens = 0;             // T, of each of B texts
  const float* parts = nullptr;   // [B T, parts C]
  const float* beta = nullptr;    // [B T, steps H], before the sigmoid
  const float* forget = nullptr;  // [B T, H]; null unless the decay is learned
  const float* gate = nullptr;    // [B T, C], before the SiLU; null without
  float* y = nullptr;             // [B T, C], the result
  float* memory = nullptr;        // [B, H, P, P]
  float* past = nullptr;          // [B, taps - 1, parts C]; null without a convolution
};

// Bytes of workspace, on a cache line, for one call of mix_delta().
int64_t mix_delta_workspace(const DeltaWeights& weights, int64_t tokens);
// One of the B H heads of all texts. They share nothing, so threads may take one each.
void mix_delta(const DeltaWeights& weights, const DeltaMix& mix, int64_t index, void* workspace);

// As MeansState.
struct DeltaState {
  DeltaState(const DeltaWeights& weights, int64_t batch, Arrays& state);

  float* memory;
  float* past;
};

}  // namespace tost
