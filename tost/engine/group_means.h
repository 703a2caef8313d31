// Group means between the products of a language engine: convolution, membership, running means and
// gate, for a few tokens as for many.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/engine/language_state.h"

namespace tost {

// Of a mixer of running means (nn/causal_means.h), all but its linear maps.
struct MeansWeights {
  int64_t taps() const { return filter.defined() ? filter.size(0) : 1; }
  int64_t bytes() const;

  int64_t heads = 0, dim = 0;
  bool gate = false;
  Array router_bias, temp;  // [H] float32
  Array filter;             // [taps, C] float32; undefined without a convolution
  Array scale;              // [C] float32
  Array decay;              // [H] float64
};

// Rates of forgetting, sigmoid(decay) [H] in float64; ones without a decay.
Array forgetting_rates(const Array& decay, int64_t heads);

// Tokens of one call and the mixer's state, both updated in place.
struct MeansMix {
  int64_t batch = 0, tokens = 0;
  const float* parts = nullptr;  // [B T, C] u, v and with a gate g, side by side
  float* pi = nullptr;           // [B T, H]: the router's products, then memberships times H
  float* base = nullptr;         // [B T, C], work
  float* y = nullptr;            // [B T, C], the result
  double* sums = nullptr;        // [B, H, P + 1]
  float* past = nullptr;         // [B, taps - 1, C]; null without a convolution
};

int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens);
void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel);

// The state's sums and earlier tokens, made where there are none and owned by nobody else. Throws a
// usage Error for those of another number of texts or another model.
struct MeansState {
  MeansState(const MeansWeights& weights, int64_t batch, Arrays& state);

  double* sums;
  float* past;
};

}  // namespace tost
