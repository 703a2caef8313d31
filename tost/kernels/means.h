// Running group means on raw memory, forward and backward, for sequences, chunks and single tokens,
// with a state that holds the sums over earlier tokens. Not in the paper.
//
// Definition. For each sample and head, with v [T, P] and the head's decay G, 0 < G <= 1:
//   M_t = G M_(t-1) + pi_t v_t,  R_t = G R_(t-1) + pi_t^2
//   z_t = base_t + scale M_t / sqrt(R_t + 1e-6)
//   y_t = z_t g_t / (1 + exp(-g_t)) with a gate g, else z_t
// The last `from_end` heads, which have no state, read in reverse: t - 1 is the token after t.
//
// Layout and storage are those of tssa.h. Arithmetic is float32. A sum is a float64 total before
// the chunk (kCausalChunk tokens, counted from the first token read) plus a float32 sum within the
// chunk, so the error does not grow. The state is float64.
//
// No bit of the results depends on the number of threads or on later tokens. Sequences, chunks and
// single steps agree up to rounding, and so do instruction sets (isa.h). A NaN in a token spreads
// to the same channel of this and all later tokens; a NaN in pi or decay spreads to the head.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa_causal.h"

namespace tost::kernels {

// The number of values, M [P] and R per head, in a sample's state or in the sums before a chunk.
inline int64_t means_state_size(const TssaShape& shape) {
  return shape.channels() + shape.heads;
}

struct MeansInputs {
  TssaShape shape;                 // tokens are those of this call: 1 for a step
  DType dtype = DType::kFloat32;   // of values, base, gate, y and their gradients
  ConstTokens values, base, gate;  // gate may be null
  const float* pi = nullptr;       // [B, T, H]
  const double* decay = nullptr;   // [H]
  const float* scale = nullptr;    // [C]
  int64_t from_end = 0;            // heads, the last ones
};

struct MeansForwardArgs {
  MeansInputs in;
  const double* state = nullptr;  // [B, H, P + 1], before the first token; null means zeros
  Tokens y;                       // must not overlap the inputs
  // Optional results, contiguous.
  double* next_state = nullptr;  // [B, H, P + 1], after the last token; may be `state` itself
  float* carry = nullptr;        // [B, chunks, H, P + 1]: the sums before each chunk, for backward
};

struct MeansBackwardArgs {
  MeansInputs in;
  const float* carry = nullptr;  // of the forward
  ConstTokens grad_y;
  // The results, which must not overlap the inputs. grad_base and grad_gate are written only if
  // there is a gate; otherwise grad_base equals grad_y.
  Tokens grad_values, grad_base, grad_gate;
  float* grad_pi = nullptr;      // [B, T, H]
  float* grad_scale = nullptr;   // [C]
  double* grad_decay = nullptr;  // [H]
};

// The bytes of workspace: about 16 B C + 256 H for forward, and 300 B C for backward.
int64_t means_forward_workspace(const MeansForwardArgs& args);
int64_t means_backward_workspace(const MeansBackwardArgs& args);

// `workspace` is 64-byte aligned. Threads divide the heads. Forward and backward do not allocate,
// and throw only a usage Error for a wrong TOST_ISA (isa.h).
void means_forward(const MeansForwardArgs& args, void* workspace, ParallelFor parallel);

// Computes gradients by the closed form, with dz = grad_y silu(g), r = 1 / sqrt(R + 1e-6), and the
// reverse sums
//   A_t = dz_t scale r_t + G A_(t+1),  B_t = -sum_i dz_t scale M_t r_t^3 / 2 + G B_(t+1):
//   dv = pi A,  dpi = sum_i A v + 2 pi B,  dscale = sum dz M r,
//   dG = sum_t (sum_i A_t M_(t-1) + B_t R_(t-1)),  dbase = dz,  dgate = grad_y z silu'(g)
void means_backward(const MeansBackwardArgs& args, void* workspace, ParallelFor parallel);

}  // namespace tost::kernels
