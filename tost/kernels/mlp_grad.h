// LayerNorm, GELU and the residual scaled by gamma of a block in training, forward and backward, in
// as few passes over memory as possible.
//
// Arrays are contiguous [rows, width]. `dtype` is the type of the inputs and outputs of matrix
// products; residuals, parameters and statistics are float32, and so is all arithmetic. bfloat16 is
// rounded to nearest even on store. Sums over rows are formed for chunks of rows that depend only
// on the shape, and added in their order. So no result depends on the number of threads. Nothing
// allocates; workspaces hold column_sums_workspace() floats. Everything throws a usage Error for a
// wrong TOST_ISA (isa.h) and for nothing else.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

struct BranchRows {
  int64_t rows = 0, width = 0;
  DType dtype = DType::kFloat32;  // of the inputs and outputs of products
};

// Floats that sums over rows need.
int64_t column_sums_workspace(int64_t rows, int64_t width);

// y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(variance + eps).
struct NormForwardArgs : BranchRows {
  const float* x = nullptr;
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width], may be null
  float eps = 1e-6f;
  void* y = nullptr;
  float* mean = nullptr;  // [rows], may be null
  float* rstd = nullptr;  // [rows], may be null
};
void norm_forward(const NormForwardArgs& args, ParallelFor parallel);

// grad_x = grad_residual + what flows through the norm.
struct NormBackwardArgs : BranchRows {
  const float* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  const void* grad_y = nullptr;
  const float* grad_residual = nullptr;  // may be null: zeros
  float* grad_x = nullptr;               // may be grad_residual
  float* grad_weight = nullptr;          // [width]
  float* grad_bias = nullptr;            // [width], may be null
  float* workspace = nullptr;            // for 2 width columns
};
void norm_backward(const NormBackwardArgs& args, ParallelFor parallel);

// a = GELU(h + bias), exact (erf) or by its tanh approximation.
struct GeluForwardArgs : BranchRows {
  const void* h = nullptr;
  const float* bias = nullptr;  // [width], may be null
  bool tanh = false;
  void* a = nullptr;  // may be h
};
void gelu_forward(const GeluForwardArgs& args, ParallelFor parallel);

// grad_h = grad_a GELU'(h + bias), and once more a.
struct GeluBackwardArgs : BranchRows {
  const void* h = nullptr;
  const float* bias = nullptr;
  bool tanh = false;
  const void* grad_a = nullptr;
  void* grad_h = nullptr;      // may be grad_a
  void* a = nullptr;           // may be null or h
  float* grad_bias = nullptr;  // [width]: sums of grad_h; may be null
  float* workspace = nullptr;  // for `width` columns; null without grad_bias
};
void gelu_backward(const GeluBackwardArgs& args, ParallelFor parallel);

// y = x + keep gamma (branch + bias); keep is one factor for each `group` rows (stochastic depth).
struct ScaledAddArgs : BranchRows {
  const float* x = nullptr;
  const void* branch = nullptr;
  const float* bias = nullptr;   // [width], may be null
  const float* gamma = nullptr;  // [width]
  const float* keep = nullptr;   // [rows / group], may be null: ones
  int64_t group = 1;
  float* y = nullptr;
};
void scaled_add(const ScaledAddArgs& args, ParallelFor parallel);

// masked = keep grad_y, rounded to dtype, and its sums over rows.
struct MaskedGradientArgs : BranchRows {
  const float* grad_y = nullptr;
  const float* keep = nullptr;  // as above
  int64_t group = 1;
  void* masked = nullptr;      // may be null: only the sums
  float* sums = nullptr;       // [width]
  float* workspace = nullptr;  // for `width` columns
};
void masked_gradient(const MaskedGradientArgs& args, ParallelFor parallel);

// scaled = gamma weight, a factor for each row, rounded to dtype.
struct ScaleRowsArgs : BranchRows {
  const float* weight = nullptr;
  const float* gamma = nullptr;  // [rows]
  void* scaled = nullptr;
};
void scale_rows(const ScaleRowsArgs& args, ParallelFor parallel);

// With product = gradᵀ a of y = gamma (a weightᵀ): dots = the sums of weight product along rows,
// which is the gradient of gamma, and product becomes gamma product, that of weight.
struct GammaGradientArgs : BranchRows {
  const float* weight = nullptr;
  const float* gamma = nullptr;  // [rows]
  void* product = nullptr;
  float* dots = nullptr;  // [rows]
};
void gamma_gradient(const GammaGradientArgs& args, ParallelFor parallel);

}  // namespace tost::kernels
