// The vectorised passes of running group means over at most kTokenGroup tokens of one chunk, one
// head. group_means.cc calls them; group_means-inl.h defines them, and group_means_passes.cc
// compiles them once per instruction set.
#pragma once

#include <cstdint>

#include "tost/kernels/group_means.h"
#include "tost/kernels/tssa_passes.h"

namespace tost::kernels {

// Rows of tokens of one head.
struct MeansRows {
  const void* data = nullptr;
  int64_t stride = 0;
};
struct MeansOut {
  void* data = nullptr;
  int64_t stride = 0;
};

struct MeansBlock {
  int64_t tokens = 0;
  int64_t width = 0;
  MeansRows values, base, gate, grad_y;
  const float* pi = nullptr;
  float* grad_pi = nullptr;
  int64_t pi_stride = 0;          // of pi and grad_pi, from token to token
  float decay = 1;                // G
  const float* powers = nullptr;  // G^(1 + t) with t counted from the chunk's first token
  const float* scale = nullptr;   // [P]
  const float* before = nullptr;  // [P + 1]: M and R before the chunk
  float* rest = nullptr;          // [P + 1]: the chunk's own part of the sums so far, updated
  MeansOut y;
  bool stream = false;  // whether y is too large to be worth a place in the caches
  // Backward. The forward sums of the tokens: M [tokens, P], R and 1 / sqrt(R + 1e-6) [tokens].
  bool first = false;  // whether the chunk begins here
  float* sums = nullptr;
  int64_t sums_stride = 0;
  float* mass = nullptr;
  float* inverse = nullptr;
  const float* after = nullptr;       // [P + 1]: A and B after the chunk
  const float* end_powers = nullptr;  // end_powers[-t] is G^(tokens from t to the chunk's end)
  float* grad_scale = nullptr;        // [P]: added to
  double* grad_decay = nullptr;       // added to
  MeansOut grad_values, grad_base, grad_gate;
};

struct MeansPasses {
  void (*forward)(const MeansBlock&);   // y; rest is that of M and R
  void (*restore)(const MeansBlock&);   // sums, mass, inverse; rest likewise
  void (*backward)(const MeansBlock&);  // the gradients; rest is that of A and B
  // Makes stores that went past the caches visible to other threads.
  void (*flush)();
};

// For the instruction set in use (isa.h).
const MeansPasses& means_passes(DType dtype, bool gate);

}  // namespace tost::kernels
