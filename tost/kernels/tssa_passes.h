// The vectorised passes of TSSA over one block of tokens of one sample. tssa_forward.cc and
// tssa_backward.cc call them. They are defined in tssa_forward-inl.h and tssa_backward-inl.h, which
// tssa_passes.cc compiles once per instruction set.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa.h"

namespace tost::kernels {

// Passes handle this many tokens at a time: their memberships sit in one vector, and 8 tokens of
// 768 float32 channels (24 KB) stay in a L1 cache between the two uses a pass makes of
// them.
inline constexpr int64_t kTokenGroup = 8;

// What a pass sees. Channel arrays are [C], head arrays [H]; a pass uses the fields its comment
// names.
struct TssaBlock {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t width = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  const void* g = nullptr;  // grad_y
  int64_t g_stride = 0;
  void* out = nullptr;  // y or grad_w
  int64_t out_stride = 0;
  bool stream = false;  // whether out is too large to be worth a place in the caches
  const float* temp = nullptr;
  const float* inv_norm = nullptr;     // 1 / max(sqrt(E), 1e-12)
  const float* damping = nullptr;      // D
  const float* moment_grad = nullptr;  // dS / (N + 1e-8)
  const float* pull = nullptr;         // sum_j da v^2, 0 where the clamp binds
  const float* pi_offset = nullptr;    // sum_i dS S / (N + 1e-8), per head
  const float* pi = nullptr;           // row of head k starts at k * row_stride
  float* pi_out = nullptr;             // rows alike
  const float* grad_pi = nullptr;      // rows alike, may be null
  float* logit_grad = nullptr;         // da, rows alike
  int64_t row_stride = 0;
  float* channel_sum = nullptr;  // result of the block, overwritten
  float* head_sum = nullptr;     // result of the block, overwritten
  float* scratch = nullptr;      // [4, H, kTokenGroup]
};

struct TssaPasses {
  void (*energy)(const TssaBlock&);  // channel_sum = sum_j w^2
  // pi; channel_sum = sum_j pi w^2; head_sum = sum_j pi
  void (*membership)(const TssaBlock&);
  void (*output)(const TssaBlock&);       // out = -(w pi D)
  void (*grad_moment)(const TssaBlock&);  // channel_sum = sum_j g w pi
  void (*grad_membership)(
      const TssaBlock&);                 // logit_grad; channel_sum = sum_j da v^2; head_sum = dtemp
  void (*grad_input)(const TssaBlock&);  // out = grad_w
};

// For the instruction set in use (isa.h).
const TssaPasses& tssa_passes(DType dtype);

}  // namespace tost::kernels
