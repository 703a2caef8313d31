// Batch normalisation by the batch's own statistics and the GELU after it, forward and backward.
//
// Arrays are contiguous [rows, width], a row for each pixel of the batch (channels last), float32
// or bfloat16; parameters, statistics and arithmetic are float32. As in mlp_grad.h, sums over rows
// are formed for chunks cut from the shape alone, nothing allocates, and workspaces hold
// column_sums_workspace() floats for twice the width.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

// Mean and biased variance of each column.
struct ColumnMomentsArgs {
  int64_t rows = 0, width = 0;  // rows >= 1
  DType dtype = DType::kFloat32;
  const void* z = nullptr;
  float* mean = nullptr;
  float* variance = nullptr;
  float* workspace = nullptr;
};
void column_moments(const ColumnMomentsArgs& args, ParallelFor parallel);

// a = GELU(p), or p itself, with p = (z - mean) rstd weight + bias for each column.
struct NormGeluArgs {
  int64_t rows = 0, width = 0;
  DType dtype = DType::kFloat32;
  bool gelu = true;  // the exact one
  const void* z = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  void* a = nullptr;  // may be z
};
void norm_gelu(const NormGeluArgs& args, ParallelFor parallel);

// The gradients of z, through the statistics as well, and of weight and bias.
struct NormGeluBackwardArgs {
  NormGeluArgs forward;  // its a is not used
  const void* grad_a = nullptr;
  void* grad_z = nullptr;  // may be grad_a
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
  float* workspace = nullptr;
};
void norm_gelu_backward(const NormGeluBackwardArgs& args, ParallelFor parallel);

}  // namespace tost::kernels
