// Group means of a language engine, for any number of tokens: convolution, membership, running
// means and gate, but no matrix products.
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

}  // namespace tost
