// Cross entropy over a vocabulary and its gradient: one block a row, which is read once from memory
// and a second time from a cache.
#pragma once

#include <cfloat>
#include <cmath>

#include "tost/kernels/cuda/device.cuh"
#include "tost/kernels/cuda/rows_cuda.h"

namespace tost::kernels::cuda {

// Two rows a multiprocessor: what all of them hold stays in the L2 cache.
inline constexpr int kSoftmaxThreads = 1024;
inline constexpr int64_t kSoftmaxBytes = 2 * kSoftmaxThreads / 32 * int64_t{sizeof(float)};

// The largest of some values and the sum of exp(x - largest) over them; NaN passes into the sum.
struct Exponentials {
  float largest = -FLT_MAX, sum = 0;

  __device__ void add(float other_largest, float other_sum) {
    const float both = other_largest > largest ? other_largest : largest;
    sum = sum * expf(largest - both) + other_sum * expf(other_largest - both);
    largest = both;
  }
};

// Of all threads of the block, for each of them. parts [2, warps].
__device__ __forceinline__ Exponentials join_block(Exponentials own, float* parts) {
  TOST_UNROLL
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    const float largest = across_warp(own.largest, apart), sum = across_warp(own.sum, apart);
    // The lower thread's first, so that both come to the same.
    Exponentials lower = own, upper{largest, sum};
    if ((threadIdx.x & apart) != 0) lower = upper, upper = own;
    lower.add(upper.largest, upper.sum);
    own = lower;
  }
  constexpr int kWarpsHere = kSoftmaxThreads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) parts[warp] = own.largest, parts[kWarpsHere + warp] = own.sum;
  __syncthreads();
  Exponentials all;
  for (int w = 0; w < kWarpsHere; ++w) all.add(parts[w], parts[kWarpsHere + w]);
  return all;
}

template <class T, int V>
__global__ void __launch_bounds__(kSoftmaxThreads) softmax_gradient_pass(SoftmaxGradientArgs a) {
  TOST_SHARED(memory);
  constexpr int64_t kStep = int64_t{kSoftmaxThreads} * V;
  T* row = static_cast<T*>(a.logits) + int64_t{blockIdx.x} * a.width;
  const int64_t target = a.targets[blockIdx.x];
  const bool asked = target >= 0;
  const float wanted = !asked             ? 0.0f
                       : target < a.width ? to_float(row[target])  // before it is written
                                          : NAN;
  Exponentials own;
  for (int64_t i = int64_t{threadIdx.x} * V; i < a.width; i += kStep) {
    const auto pack = load_pack<T, V>(row + i);
    float largest = own.largest, sum = 0;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float x = to_float(pack.values[v]);
      largest = x > largest ? x : largest;
    }
    TOST_UNROLL
    for (int v = 0; v < V; ++v) sum += expf(to_float(pack.values[v]) - largest);
    own.add(largest, sum);
  }
  const Exponentials all = join_block(own, reinterpret_cast<float*>(memory));
  if (threadIdx.x == 0)
    a.losses[blockIdx.x] = asked ? logf(all.sum) + (all.largest - wanted) : 0.0f;
  if (a.scale == nullptr) return;
  const float scale = asked ? static_cast<float>(*a.scale) : 0.0f;
  const float factor = target < a.width ? scale / all.sum : NAN;
  const int64_t steps = (a.width + kStep - 1) / kStep;
  for (int64_t step = steps - 1; step >= 0; --step) {  // what was read last is nearest
    const int64_t i = step * kStep + int64_t{threadIdx.x} * V;
    if (i >= a.width) continue;
    auto pack = load_pack<T, V>(row + i);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float share = asked ? expf(to_float(pack.values[v]) - all.largest) * factor : 0.0f;
      store(&pack.values[v], i + v == target ? share - scale : share);
    }
    store_pack(row + i, pack);
  }
}

}  // namespace tost::kernels::cuda
