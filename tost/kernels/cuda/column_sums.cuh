// Sums of what many blocks left, in float64. A block's threads share its columns: `parts` of them,
// a power of two, add up one, each every parts-th number; a single thread would wait for memory as
// often as there are numbers. The order follows from `parts` alone. Shared: a double a thread.
#pragma once

#include "tost/kernels/cuda/device.cuh"

namespace tost::kernels::cuda {

// Where a thread stands.
struct Column {
  __device__ explicit Column(int parts)
      : columns(static_cast<int>(blockDim.x) / parts),
        part(static_cast<int>(threadIdx.x) / columns),
        number(int64_t{blockIdx.x} * columns + static_cast<int>(threadIdx.x) % columns) {}

  int columns, part;  // of the block; of the column
  int64_t number;     // of the column, which may be beyond the last
};

// The sum of what the threads of a column have, for its part 0. Every thread of the block comes
// here.
__device__ __forceinline__ double sum_parts(const Column& at, double own) {
  TOST_SHARED(memory);
  auto* sums = reinterpret_cast<double*>(memory);
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = static_cast<int>(blockDim.x) / at.columns / 2; half > 0; half /= 2) {
    if (at.part < half) sums[threadIdx.x] += sums[threadIdx.x + half * at.columns];
    __syncthreads();
  }
  const double sum = sums[threadIdx.x];
  __syncthreads();
  return sum;
}

// out[b, i] = sum over the rows of partial[b, row, i], i < width.
template <class Out>
__global__ void sum_rows(const float* partial, int64_t batch, int64_t rows, int64_t width,
                         int parts, Out* out) {
  const Column at(parts);
  const bool inside = at.number < batch * width;
  double sum = 0;
  if (inside) {
    const float* first = partial + at.number / width * rows * width + at.number % width;
    for (int64_t row = at.part; row < rows; row += parts) sum += first[row * width];
  }
  sum = sum_parts(at, sum);
  if (inside && at.part == 0) out[at.number] = static_cast<Out>(sum);
}

}  // namespace tost::kernels::cuda
