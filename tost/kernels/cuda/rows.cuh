// LayerNorm, GELU and scaled residual of a block in training, on rows: kernels/mlp_grad.h. Two
// kinds of passes: a warp takes a row where sums go along it; where they go down the columns, or
// nowhere, 32 threads take adjacent packs of V columns and eight of them rows side by side.
#pragma once

#include "tost/kernels/cuda/device.cuh"
#include "tost/kernels/mlp_grad.h"

namespace tost::kernels::cuda {

inline constexpr int kWarp = 32, kWarps = 8, kRowThreads = kWarp * kWarps;
// Rows, or packs of one, whose loads are under way together, and rows of a block of a column pass:
// from the shape alone, so that sums over them repeat bit for bit.
inline constexpr int kRowsAtOnce = 4;
inline constexpr int64_t kSplitRows = 2 * kRowsAtOnce * kWarps;

// Where a thread of a row pass stands.
struct RowPlace {
  __device__ explicit RowPlace(int64_t rows)
      : lane(static_cast<int>(threadIdx.x) % kWarp),
        row(int64_t{blockIdx.x} * kWarps + static_cast<int>(threadIdx.x) / kWarp),
        inside(row < rows) {}

  int lane;
  int64_t row;
  bool inside;  // all threads take part in sums
};

// body(column) for the thread's packs of its row.
template <int V, class Body>
__device__ __forceinline__ void over_packs(const RowPlace& at, int64_t width, Body body) {
  if (!at.inside) return;
  for (int64_t column = int64_t{at.lane} * V; column < width; column += kWarp * V) body(column);
}

template <int V>
__device__ __forceinline__ Pack<float, V> floats_or(const float* p, int64_t i, float otherwise) {
  if (p != nullptr) return load_pack<float, V>(p + i);
  Pack<float, V> pack;
  TOST_UNROLL
  for (int v = 0; v < V; ++v) pack.values[v] = otherwise;
  return pack;
}

template <class T, int V>
__global__ void __launch_bounds__(kRowThreads) norm_rows(NormForwardArgs a) {
  const RowPlace at(a.rows);
  const float* x = a.x + at.row * a.width;
  const float share = 1.0f / static_cast<float>(a.width);
  float sum = 0;
  over_packs<V>(at, a.width, [&](int64_t i) {
    const auto values = load_pack<float, V>(x + i);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) sum += values.values[v];
  });
  const float mean = warp_sum(sum) * share;
  float squares = 0;
  over_packs<V>(at, a.width, [&](int64_t i) {
    const auto values = load_pack<float, V>(x + i);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) squares += (values.values[v] - mean) * (values.values[v] - mean);
  });
  const float rstd = 1.0f / sqrtf(warp_sum(squares) * share + a.eps);
  T* y = static_cast<T*>(a.y) + at.row * a.width;
  over_packs<V>(at, a.width, [&](int64_t i) {
    const auto values = load_pack<float, V>(x + i), weight = load_pack<float, V>(a.weight + i);
    const auto shift = floats_or<V>(a.bias, i, 0.0f);
    Pack<T, V> result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      store(&result.values[v],
            (values.values[v] - mean) * rstd * weight.values[v] + shift.values[v]);
    }
    store_pack(y + i, result);
  });
  if (!at.inside || at.lane != 0) return;
  if (a.mean != nullptr) a.mean[at.row] = mean;
  if (a.rstd != nullptr) a.rstd[at.row] = rstd;
}

// grad_x alone.
template <class T, int V>
__global__ void __launch_bounds__(kRowThreads) norm_gradient_rows(NormBackwardArgs a) {
  const RowPlace at(a.rows);
  const int64_t first = at.row * a.width;
  const float* x = a.x + first;
  const T* grad_y = static_cast<const T*>(a.grad_y) + first;
  const float mean = at.inside ? a.mean[at.row] : 0.0f, rstd = at.inside ? a.rstd[at.row] : 0.0f;
  float sum = 0, dot = 0;
  over_packs<V>(at, a.width, [&](int64_t i) {
    const auto values = load_pack<float, V>(x + i), weight = load_pack<float, V>(a.weight + i);
    const auto grad = load_pack<T, V>(grad_y + i);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float own = to_float(grad.values[v]) * weight.values[v];
      sum += own;
      dot += own * ((values.values[v] - mean) * rstd);
    }
  });
  const float share = 1.0f / static_cast<float>(a.width);
  const float mean_grad = warp_sum(sum) * share, mean_dot = warp_sum(dot) * share;
  const float* residual = a.grad_residual != nullptr ? a.grad_residual + first : nullptr;
  over_packs<V>(at, a.width, [&](int64_t i) {
    const auto values = load_pack<float, V>(x + i), weight = load_pack<float, V>(a.weight + i);
    const auto grad = load_pack<T, V>(grad_y + i);
    Pack<float, V> result = floats_or<V>(residual, i, 0.0f);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float own = to_float(grad.values[v]) * weight.values[v];
      const float hat = (values.values[v] - mean) * rstd;
      result.values[v] += (own - mean_grad - hat * mean_dot) * rstd;
    }
    store_pack(a.grad_x + first + i, result);
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kRowThreads) gamma_rows(GammaGradientArgs a) {
  const RowPlace at(a.rows);
  const float gamma = at.inside ? a.gamma[at.row] : 0.0f;
  const float* weight = a.weight + at.row * a.width;
  T* product = static_cast<T*>(a.product) + at.row * a.width;
  constexpr int64_t kStep = int64_t{kWarp} * V;
  float dot = 0;
  for (int64_t first = int64_t{at.lane} * V; at.inside && first < a.width;
       first += kRowsAtOnce * kStep) {
    Pack<float, V> values[kRowsAtOnce];
    Pack<T, V> packs[kRowsAtOnce];
    TOST_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const int64_t i = first + k * kStep < a.width ? first + k * kStep : first;
      values[k] = load_pack<float, V>(weight + i);
      packs[k] = load_pack<T, V>(product + i);
    }
    TOST_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (first + k * kStep >= a.width) continue;
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const float value = to_float(packs[k].values[v]);
        dot += value * values[k].values[v];
        store(&packs[k].values[v], gamma * value);
      }
      store_pack(product + first + k * kStep, packs[k]);
    }
  }
  dot = warp_sum(dot);
  if (at.inside && at.lane == 0) a.dots[at.row] = dot;
}

// A pass over columns: op.of(column) reads what all rows share, op.load(row, column) what a thread
// needs of a pack, before op.run() has both, writes results, and adds to the sums down the columns.
// The compiler would read nothing ahead of a result, which might lie there. partial [kSums, splits,
// width].
template <class Op, int V, int kSums>
__global__ void __launch_bounds__(kRowThreads)
    column_pass(Op op, int64_t rows, int64_t width, float* partial) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t chunks = (width + kWarp * V - 1) / (kWarp * V), split = blockIdx.x / chunks;
  const int64_t column = (blockIdx.x % chunks * kWarp + lane) * V;
  const bool inside = column < width;
  const int64_t end = (split + 1) * kSplitRows < rows ? (split + 1) * kSplitRows : rows;
  float sums[kSums > 0 ? kSums : 1][V] = {};
  if (inside) {
    const auto shared = op.of(column);
    for (int64_t first = split * kSplitRows + warp; first < end; first += kRowsAtOnce * kWarps) {
      typename Op::Inputs in[kRowsAtOnce];
      TOST_UNROLL
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const int64_t row = first + i * kWarps;
        in[i] = op.load(row < end ? row : end - 1, column);
      }
      TOST_UNROLL
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (first + i * kWarps < end) op.run(shared, in[i], first + i * kWarps, column, sums);
      }
    }
  }
  if constexpr (kSums > 0) {
    TOST_SHARED(memory);
    auto* scratch = reinterpret_cast<float*>(memory);  // [warps, lanes V]
    const int64_t splits = (rows + kSplitRows - 1) / kSplitRows;
    for (int s = 0; s < kSums; ++s) {
      if (s > 0) __syncthreads();
      TOST_UNROLL
      for (int v = 0; v < V; ++v) scratch[(warp * V + v) * kWarp + lane] = sums[s][v];
      __syncthreads();
      for (int v = warp; inside && v < V; v += kWarps) {
        float sum = 0;
        for (int w = 0; w < kWarps; ++w) sum += scratch[(w * V + v) * kWarp + lane];
        partial[(s * splits + split) * width + column + v] = sum;
      }
    }
  }
}

struct Nothing {};

struct Gelu {
  float value, slope;
};
template <bool kTanh>
__device__ __forceinline__ Gelu gelu_of(float x) {
  if constexpr (!kTanh) {
    const float cumulative = 0.5f * (1.0f + erff(x * 0.70710678f));
    return {x * cumulative, cumulative + x * 0.39894228f * expf(-0.5f * x * x)};
  } else {
    constexpr float kRoot = 0.79788456f, kCubic = 0.044715f;
    const float inner = kRoot * x * (1.0f + kCubic * x * x);
    const float t = 1.0f - 2.0f / (1.0f + expf(2.0f * inner));  // tanh, to what 1 + t can hold
    const float factor = 0.5f + 0.5f * t;
    const float inner_slope = kRoot + 3 * kRoot * kCubic * x * x;
    return {x * factor, factor + 0.5f * x * (1.0f - t * t) * inner_slope};
  }
}

template <class T, int V, bool kTanh>
struct GeluForward {
  GeluForwardArgs a;
  using Inputs = Pack<T, V>;
  using Bias = Pack<float, V>;

  __device__ Bias of(int64_t column) const { return floats_or<V>(a.bias, column, 0.0f); }
  __device__ Inputs load(int64_t row, int64_t column) const {
    return load_pack<T, V>(static_cast<const T*>(a.h) + row * a.width + column);
  }
  __device__ void run(const Bias& bias, const Inputs& h, int64_t row, int64_t column,
                      float (&)[1][V]) const {
    Pack<T, V> result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      store(&result.values[v], gelu_of<kTanh>(to_float(h.values[v]) + bias.values[v]).value);
    }
    store_pack(static_cast<T*>(a.a) + row * a.width + column, result);
  }
};

template <class T, int V, bool kTanh>
struct GeluBackward {
  GeluBackwardArgs a;
  struct Inputs {
    Pack<T, V> h, grad;
  };
  using Bias = Pack<float, V>;

  __device__ Bias of(int64_t column) const { return floats_or<V>(a.bias, column, 0.0f); }
  __device__ Inputs load(int64_t row, int64_t column) const {
    const int64_t place = row * a.width + column;
    return {load_pack<T, V>(static_cast<const T*>(a.h) + place),
            load_pack<T, V>(static_cast<const T*>(a.grad_a) + place)};
  }
  __device__ void run(const Bias& bias, const Inputs& in, int64_t row, int64_t column,
                      float (&sums)[1][V]) const {
    const int64_t place = row * a.width + column;
    Pack<T, V> again, result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const Gelu gelu = gelu_of<kTanh>(to_float(in.h.values[v]) + bias.values[v]);
      const float grad = to_float(in.grad.values[v]) * gelu.slope;
      store(&again.values[v], gelu.value);
      store(&result.values[v], grad);
      sums[0][v] += grad;
    }
    if (a.a != nullptr) store_pack(static_cast<T*>(a.a) + place, again);
    store_pack(static_cast<T*>(a.grad_h) + place, result);
  }
};

template <class T, int V>
struct ScaledAdd {
  ScaledAddArgs a;
  struct Inputs {
    Pack<float, V> x;
    Pack<T, V> branch;
    float keep;
  };
  struct Channels {
    Pack<float, V> bias, gamma;
  };

  __device__ Channels of(int64_t column) const {
    return {floats_or<V>(a.bias, column, 0.0f), load_pack<float, V>(a.gamma + column)};
  }
  __device__ Inputs load(int64_t row, int64_t column) const {
    const int64_t place = row * a.width + column;
    return {load_pack<float, V>(a.x + place),
            load_pack<T, V>(static_cast<const T*>(a.branch) + place),
            a.keep != nullptr ? a.keep[row / a.group] : 1.0f};
  }
  __device__ void run(const Channels& c, const Inputs& in, int64_t row, int64_t column,
                      float (&)[1][V]) const {
    Pack<float, V> result = in.x;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float value = to_float(in.branch.values[v]) + c.bias.values[v];
      result.values[v] += in.keep * c.gamma.values[v] * value;
    }
    store_pack(a.y + row * a.width + column, result);
  }
};

// Also of a weight whose every row has a factor.
template <class T, int V>
struct KeptGradient {
  KeptGradientArgs a;
  struct Inputs {
    Pack<float, V> grad;
    float keep;
  };

  __device__ Nothing of(int64_t) const { return {}; }
  __device__ Inputs load(int64_t row, int64_t column) const {
    return {load_pack<float, V>(a.grad_y + row * a.width + column),
            a.keep != nullptr ? a.keep[row / a.group] : 1.0f};
  }
  __device__ void run(Nothing, const Inputs& in, int64_t row, int64_t column,
                      float (&sums)[1][V]) const {
    Pack<T, V> result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float value = in.keep * in.grad.values[v];
      store(&result.values[v], value);
      sums[0][v] += value;
    }
    if (a.kept != nullptr) store_pack(static_cast<T*>(a.kept) + row * a.width + column, result);
  }
};

// The sums for a norm's weight and bias.
template <class T, int V>
struct NormSums {
  NormBackwardArgs a;
  struct Inputs {
    Pack<float, V> x;
    Pack<T, V> grad;
    float mean, rstd;
  };

  __device__ Nothing of(int64_t) const { return {}; }
  __device__ Inputs load(int64_t row, int64_t column) const {
    const int64_t place = row * a.width + column;
    return {load_pack<float, V>(a.x + place),
            load_pack<T, V>(static_cast<const T*>(a.grad_y) + place), a.mean[row], a.rstd[row]};
  }
  __device__ void run(Nothing, const Inputs& in, int64_t, int64_t, float (&sums)[2][V]) const {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float grad = to_float(in.grad.values[v]);
      sums[0][v] += grad * ((in.x.values[v] - in.mean) * in.rstd);
      sums[1][v] += grad;
    }
  }
};

}  // namespace tost::kernels::cuda
