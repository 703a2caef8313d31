// A short causal depthwise convolution over tokens, forward and backward.
//   y_t = sum_i filter_i x_(t - taps + 1 + i) per channel; what precedes the first token is `past`.
// Layout and storage as in tssa.h; arithmetic is float32. Results do not depend on the number of
// threads, bit for bit.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

struct CausalConvArgs {
  int64_t batch = 0, tokens = 0, channels = 0;
  int64_t taps = 1;
  DType dtype = DType::kFloat32;  // of x, past, y and their gradients
  ConstTokens x;
  ConstTokens past;               // [B, taps - 1, C]; null: zeros
  const float* filter = nullptr;  // [taps, C], the last row for the current token
  Tokens y;                       // must not overlap x
};

struct CausalConvGradArgs {
  CausalConvArgs forward;  // its y is unused
  ConstTokens grad_y;
  Tokens grad_x;                 // must not overlap the inputs
  float* grad_filter = nullptr;  // [taps, C]
};

inline constexpr int64_t kMostTaps = 16;

// taps are 1 to kMostTaps. Both calls throw a usage Error for a wrong TOST_ISA (isa.h) and for
// nothing else.
void causal_conv(const CausalConvArgs& args, ParallelFor parallel);

// Floats of workspace.
int64_t causal_conv_grad_workspace(const CausalConvGradArgs& args);
void causal_conv_grad(const CausalConvGradArgs& args, float* workspace, ParallelFor parallel);

}  // namespace tost::kernels
