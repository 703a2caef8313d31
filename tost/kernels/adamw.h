// AdamW on float32 weights that have a bfloat16 copy, in one pass over memory, and the sum of
// squares that clipping needs.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

// Computes with g = scale gradient, in this order: p <- decay p; m <- m + (1 - beta1) (g - m); v <-
// v + (1 - beta2) (g^2 - v); p <- p - rate m / (sqrt(v) root + eps); copy <- p, rounded to nearest
// even. Elements are independent, so no result depends on the number of threads.
struct AdamWArgs {
  int64_t count = 0;
  float* p = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  void* copy = nullptr;  // bfloat16, may be null
  float scale = 1, decay = 1, eps = 1e-8f;
  float rest1 = 0.1f, rest2 = 0.001f;  // 1 - beta; as 1 minus a float32 it would lose its digits
  float rate = 0;                      // learning rate / (1 - beta1^t)
  float root = 1;                      // 1 / sqrt(1 - beta2^t)
};
void adamw(const AdamWArgs& args, ParallelFor parallel);

// Sums squares in float64 over pieces that depend only on the count. `partial` holds
// sum_of_squares_parts() numbers.
int64_t sum_of_squares_parts(int64_t count);
double sum_of_squares(const void* x, DType dtype, int64_t count, double* partial,
                      ParallelFor parallel);

}  // namespace tost::kernels
