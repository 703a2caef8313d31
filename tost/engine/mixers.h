// The mixers of language models in the engine: group means, the delta rule and softmax attention.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/engine/language_state.h"

namespace tost {

// The weights of a mixer of running means (nn/causal_means.h) except its linear maps.
struct MeansWeights {
  int64_t taps() const { return filter.defined() ? filter.size(0) : 1; }
  int64_t bytes() const;

  int64_t heads = 0, dim = 0;
  int64_t from_end = 0;  // heads, the last ones, that read from the last token back
  bool gate = false;
  Array router_bias, temp;  // [H] float32
  Array filter;             // [taps, C] float32; undefined without a convolution
  Array scale;              // [C] float32
  Array decay;              // [H] float64
};

// Columns of a row.
struct Channels {
  int64_t first, count;
};
// Token t of a text after a causal convolution of some channels with filter [taps, row of past], as
// CausalConv. x: [T, ...] with rows `stride` apart; past: the taps - 1 tokens before; out: [count].
void convolve_channels(const Array& filter, const float* x, int64_t stride, const float* past,
                       int64_t t, Channels channels, float* out);
// Stores these channels of the last tokens in `past`, for the call after.
void store_channels(const Array& filter, const float* x, int64_t stride, int64_t tokens,
                    Channels channels, float* past);

// All channels of whole texts x [B, T, C], after `past` [B, taps - 1, C], which is replaced.
void convolve_texts(const Array& filter, int64_t batch, int64_t tokens, const float* x, float* past,
                    float* out);

// y[i] *= SiLU(gate[i]).
void multiply_by_silu(const float* gate, int64_t count, float* y);

// Rates of forgetting, sigmoid(decay) [H] in float64; ones without a decay.
Array forgetting_rates(const Array& decay, int64_t heads);

// The tokens of one call and the mixer's state, both updated in place.
struct MeansMix {
  int64_t batch = 0, tokens = 0;
  const float* parts = nullptr;  // [B T, C] u, v and with a gate g, side by side
  float* pi = nullptr;           // [B T, H]: the router's products, then memberships times H
  float* base = nullptr;         // [B T, C], work
  float* y = nullptr;            // [B T, C], the result
  double* sums = nullptr;        // [B, H, P + 1]
  float* past = nullptr;         // [B, taps - 1, C]; null without a convolution
};

// `stateful`: whether MeansMix::sums is not null.
int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens,
                            bool stateful = true);
void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel);

// Finds or makes the state's sums and earlier tokens, with no other owner. Throws a usage Error for
// a state of another model or number of texts.
struct MeansState {
  MeansState(const MeansWeights& weights, int64_t batch, Arrays& state);

  double* sums;
  float* past;
};

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
