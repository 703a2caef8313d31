// The vectorised passes of running group means over one chunk of one head. group_means.cc calls
// them; group_means-inl.h defines them, and group_means_passes.cc compiles them once per
// instruction set.
#pragma once

#include <cstdint>

#include "tost/kernels/group_means.h"

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
  int64_t tokens = 0;  // at most kCausalChunk
  int64_t width = 0;
  MeansRows values, base, gate, grad_y;
  const float* pi = nullptr;
  float* grad_pi = nullptr;
  int64_t pi_stride = 0;          // of pi and grad_pi, from token to token
  const float* powers = nullptr;  // [kCausalChunk]: G^1, G^2, ...; the first is G itself
  const float* scale = nullptr;   // [P]
  const float* before = nullptr;  // [P + 1]: M and R before the chunk
  const float* after = nullptr;   // [P + 1]: A and B after it, backward
  float* rest = nullptr;          // [P + 1]: result, the chunk's own part of the sums at its end
  float* grad_scale = nullptr;    // [P]: result, of the chunk
  double* grad_decay = nullptr;   // added to
  MeansOut y, grad_values, grad_base, grad_gate;
};

struct MeansPasses {
  void (*forward)(const MeansBlock&);
  void (*backward)(const MeansBlock&);
};

// For the instruction set in use (isa.h).
const MeansPasses& means_passes(DType dtype, bool gate);

}  // namespace tost::kernels
