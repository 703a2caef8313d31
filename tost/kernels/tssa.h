// TSSA on raw memory: the bidirectional token-statistics operator, forward and backward.
//
// The official vision code of arXiv 2412.17810 without dropout defines, for a sample w [N, H, P]:
//   E_ki  = sum_j w_jki^2                      energy of a feature over the tokens
//   v     = w / max(sqrt(E), 1e-12)
//   a_jk  = sum_i v_jki^2                      membership logit
//   Pi_j. = softmax over heads of (a_jk temp_k)
//   N_k   = sum_j Pi_jk
//   S_ki  = sum_j Pi_jk w_jki^2 / (N_k + 1e-8) second moment of a group
//   y     = -(w Pi D),  D = 1 / (1 + S)
//
// Sums for sample b go over the first lengths[b] tokens, the valid ones. Later tokens, the padding,
// are not read, and have y, pi and grad_w 0. A sample of length 0 has statistics 0.
//
// The layout is token-major, like the result of a projection: w[b, j, k P + i], with any strides
// for batch and token and unit stride for channels. Storage is float32 or bfloat16 (rounded to
// nearest even); arithmetic is float32, and sums over blocks of tokens are float64.
//
// No bit of the results depends on the number of threads: blocks of tokens depend only on the shape
// and the sample's length, and the sums of blocks are added in a fixed order. Padding changes no
// bit of a sample's results. Instruction sets (isa.h) agree up to rounding.
//
// Energies and second moments are float32, so |w| sqrt(N) may reach 1.8e19. For larger values E and
// S become inf, Pi becomes uniform and y becomes 0, as in the plain float32 form. A NaN in w or
// temp reaches every output that depends on it.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"

namespace tost::kernels {

enum class DType : uint8_t { kFloat32, kBfloat16 };

struct TssaShape {
  int64_t batch = 0;   // B, may be 0
  int64_t tokens = 0;  // N, may be 0
  int64_t heads = 0;   // H >= 1
  int64_t width = 0;   // P >= 1

  int64_t channels() const { return heads * width; }
};

// A token-major array [B, N, C]; strides count elements and may be 0; channels are adjacent.
struct ConstTokens {
  const void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t token_stride = 0;
};
struct Tokens {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t token_stride = 0;
};

struct TssaForwardArgs {
  TssaShape shape;
  DType dtype = DType::kFloat32;  // of w and y
  ConstTokens w;
  const float* temp = nullptr;       // [H]
  const int64_t* lengths = nullptr;  // [B], 0 to N each; null: N each
  Tokens y;                          // must not overlap w
  // Optional results, contiguous float32.
  float* pi = nullptr;      // [B, H, N]
  float* energy = nullptr;  // [B, C]: E
  float* moment = nullptr;  // [B, C]: S
  float* pi_sum = nullptr;  // [B, H]: N_k
};

struct TssaBackwardArgs {
  TssaShape shape;
  DType dtype = DType::kFloat32;  // of w, grad_y and grad_w
  ConstTokens w;
  ConstTokens grad_y;
  const float* grad_pi = nullptr;    // [B, H, N], optional
  const float* temp = nullptr;       // [H]
  const int64_t* lengths = nullptr;  // as in the forward
  // The forward's results.
  const float* pi = nullptr;      // [B, H, N]
  const float* energy = nullptr;  // [B, C]
  const float* moment = nullptr;  // [B, C]
  const float* pi_sum = nullptr;  // [B, H]
  // Results.
  Tokens grad_w;               // must not overlap w or grad_y
  float* grad_temp = nullptr;  // [H]
};

// The bytes of workspace that a call needs: about B H N floats, plus 1/56 of w for long sequences.
int64_t tssa_forward_workspace(const TssaForwardArgs& args);
int64_t tssa_backward_workspace(const TssaBackwardArgs& args);

// `workspace` is 64-byte aligned; `threads` is the number of threads that `parallel` will use; it
// changes the schedule, not the result. Forward and backward do not allocate, and throw only a
// usage Error for a wrong TOST_ISA (isa.h).
void tssa_forward(const TssaForwardArgs& args, void* workspace, ParallelFor parallel, int threads);

// Computes gradients by the closed form: with G_ki = sum_j g w Pi and dS = D^2 G,
//   dPi    = -sum_i g w D + sum_i dS (w^2 - S) / (N + 1e-8) + grad_pi
//   dlogit = Pi (dPi - sum_k Pi dPi),  da = temp dlogit,  dtemp = sum_j dlogit a
//   dw     = -g Pi D + 2 dS Pi w / (N + 1e-8) + (2 w / E) (da - sum_j da w^2 / E)
// If sqrt(E) < 1e-12, E is clamped to a constant, and the last bracket has no sum.
void tssa_backward(const TssaBackwardArgs& args, void* workspace, ParallelFor parallel,
                   int threads);

}  // namespace tost::kernels
