// Running group means on raw memory, forward and backward: for whole sequences, chunks of them and
// single tokens, with a state of the sums over the tokens before. Not in the paper.
//
// Definition. Per sample and head, v [T, P], with G the head's decay, 0 < G <= 1:
//   M_t = G M_(t-1) + pi_t v_t,  R_t = G R_(t-1) + pi_t^2
//   z_t = base_t + scale M_t / sqrt(R_t + 1e-6)
//   y_t = z_t g_t / (1 + exp(-g_t)) with a gate g, else z_t
// The last `from_end` heads take the tokens in the opposite order, so that t - 1 is the token after
// t. They have no state.
//
// Layout and storage as in tssa.h. Arithmetic is float32. A sum consists of a float64 total up to
// the chunk (kCausalChunk tokens, counted from the first token that is read) and a float32 rest
// within it, so its error does not grow with the length; the state is float64.
//
// Results do not depend on the number of threads, bit for bit, nor on later tokens. Whole
// sequences, chunks and single steps agree to rounding, as do the instruction sets (isa.h). NaN in
// a token reaches its channel (in pi or decay, its head) of that token and of all later ones.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa_causal.h"

namespace tost::kernels {

// The number of values in a sample's state, or in its sums before a chunk: M [P] and R per head.
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
  // The results, which must not overlap the inputs. grad_base and grad_gate are written only with a
  // gate; without one grad_base is grad_y.
  Tokens grad_values, grad_base, grad_gate;
  float* grad_pi = nullptr;      // [B, T, H]
  float* grad_scale = nullptr;   // [C]
  double* grad_decay = nullptr;  // [H]
};

// The bytes of workspace, for forward about 16 B C + 256 H, for backward about 300 B C.
int64_t means_forward_workspace(const MeansForwardArgs& args);
int64_t means_backward_workspace(const MeansBackwardArgs& args);

// `workspace` is 64-byte aligned. Heads are spread over threads. Forward and backward do not
// allocate, and throw only a usage Error for a wrong TOST_ISA (isa.h).
void means_forward(const MeansForwardArgs& args, void* workspace, ParallelFor parallel);

// Gradients by the closed form. With dz = grad_y silu(g), r = 1 / sqrt(R + 1e-6), and reverse sums
//   A_t = dz_t scale r_t + G A_(t+1),  B_t = -sum_i dz_t scale M_t r_t^3 / 2 + G B_(t+1):
//   dv = pi A,  dpi = sum_i A v + 2 pi B,  dscale = sum dz M r,
//   dG = sum_t (sum_i A_t M_(t-1) + B_t R_(t-1)),  dbase = dz,  dgate = grad_y z silu'(g)
void means_backward(const MeansBackwardArgs& args, void* workspace, ParallelFor parallel);

// Computes the forward of float32 inputs in float64, without a state: y [B, T, C] contiguous.
void means_reference(const MeansInputs& in, double* y);

}  // namespace tost::kernels
