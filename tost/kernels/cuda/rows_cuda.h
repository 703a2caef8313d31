// LayerNorm, GELU and scaled residual of a block in training, on a GPU: the arguments, formulas
// and rounding of kernels/mlp_grad.h, with pointers of the device's; workspaces hold this file's
// column_sums_workspace() floats. Of float32 and bfloat16 alone. Each queues its work on `stream`,
// allocates nothing, waits for nothing, and returns a cudaError_t, 0 for success; more rows than a
// grid counts are an error. Sums are formed
// in an order that follows from the shape alone, so results repeat bit for bit.
#pragma once

#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/kernels/mlp_grad.h"

namespace tost::kernels::cuda {

int64_t column_sums_workspace(int64_t rows, int64_t width);

int norm_forward(const NormForwardArgs& args, Stream stream);
int norm_backward(const NormBackwardArgs& args, Stream stream);
int gelu_forward(const GeluForwardArgs& args, Stream stream);
int gelu_backward(const GeluBackwardArgs& args, Stream stream);
int scaled_add(const ScaledAddArgs& args, Stream stream);
int kept_gradient(const KeptGradientArgs& args, Stream stream);
int scale_rows(const ScaleRowsArgs& args, Stream stream);
int gamma_gradient(const GammaGradientArgs& args, Stream stream);

// Cross entropy of logits [rows, width] and, in their place, its gradient: (softmax - onehot)
// scale, rounded to dtype; zeros and a loss of 0 where the target is -1, NaN where it is not below
// `width`.
struct SoftmaxGradientArgs {
  int64_t rows = 0, width = 0;
  DType dtype = DType::kFloat32;
  void* logits = nullptr;
  const int64_t* targets = nullptr;  // [rows]
  const double* scale = nullptr;     // one; null: no gradient, and the logits stay
  float* losses = nullptr;           // [rows]
};
int softmax_gradient(const SoftmaxGradientArgs& args, Stream stream);

}  // namespace tost::kernels::cuda
