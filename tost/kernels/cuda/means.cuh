// The passes of running group means, cut as the causal kernels are. Formulas in
// kernels/group_means.h. Between them scan_chunks() carries M and R (backward: A and B) over the
// chunks, [B, chunks, H, P + 1]. Tokens are counted in the order in which their head reads them.
#pragma once

#include "tost/kernels/cuda/causal_tiles.cuh"

namespace tost::kernels::cuda {

template <class T>
struct MeansIn {
  TokensIn<T> values, base, gate;  // gate.data may be null
  const float* pi;                 // [B, T, H]
  const double* decay;             // [H]
  const float* scale;              // [C]
  int from_end;
};

// What scan_chunks() keeps of a column of H x (P + 1).
struct MeansLeft {
  const double* decay;
  int64_t numbers, last;  // P + 1; tokens of the last chunk
  __device__ double operator()(int64_t column, int64_t tokens) const {
    return pow(decay[column / numbers], static_cast<double>(tokens));
  }
};

// Where a thread stands.
template <int V, int K>
struct MeansPlace : CausalPlace<V, K> {
  __device__ MeansPlace(const CausalCut& cut, int heads_from_end)
      : CausalPlace<V, K>(cut), from_end(this->head >= cut.heads - heads_from_end) {
    const int64_t left = cut.tokens - this->chunk * kChunk;
    count = left < kChunk ? static_cast<int>(left) : kChunk;
  }

  template <class Tokens>
  __device__ Tokens in_order(const CausalCut& cut, Tokens tokens) const {
    if (!from_end || tokens.data == nullptr) return tokens;
    return {tokens.data + (cut.tokens - 1) * tokens.token_stride, tokens.batch_stride,
            -tokens.token_stride};
  }
  // Of arrays [B, T, H], at token t of the chunk.
  __device__ int64_t token_head(const CausalCut& cut, int t) const {
    const int64_t read = this->chunk * kChunk + t, token = from_end ? cut.tokens - 1 - read : read;
    return (this->sample * cut.tokens + token) * cut.heads + this->head;
  }
  // Of arrays [B, chunks, H, P + 1], at the thread's first channel and at the head's last number.
  __device__ int64_t sums(const CausalCut& cut) const {
    return this->chunk_head(cut) * (cut.width + 1) + this->lane * V;
  }
  __device__ int64_t mass(const CausalCut& cut) const {
    return this->chunk_head(cut) * (cut.width + 1) + cut.width;
  }

  bool from_end;
  int count;  // tokens of the chunk
};

// G^n for n up to kChunk.
struct Powers {
  const float* table;
  __device__ float operator()(int n) const { return table[n]; }
};

// In shared memory, of the tokens of the chunk: pi, R, 1 / sqrt(R + 1e-6), and room for two more
// numbers of each.
struct MeansTile {
  static constexpr int kPowers = kChunk + 4;             // the next array is aligned for packs
  static constexpr int kNumbers = kPowers + 5 * kChunk;  // before `scratch`
  __device__ explicit MeansTile(unsigned char* memory)
      : powers(reinterpret_cast<float*>(memory)),
        pi(powers + kPowers),
        mass(pi + kChunk),
        inverse(mass + kChunk),
        of_token(inverse + kChunk),
        slope(of_token + kChunk),
        scratch(slope + kChunk) {}

  // `before`: R before the chunk; null leaves mass and inverse as they are. Ends with a barrier.
  template <class T, int V, int K>
  __device__ void fill(const MeansIn<T>& in, const CausalCut& cut, const MeansPlace<V, K>& at,
                       const float* before) const {
    const double decay = in.decay[at.head];
    // Of float32, but as exact near 1 as `decay` is.
    const float rate =
        decay > 0.5 ? log1pf(static_cast<float>(decay - 1.0)) : logf(static_cast<float>(decay));
    const int threads = cut.threads();
    for (int t = static_cast<int>(threadIdx.x); t <= kChunk; t += threads) {
      powers[t] = t == 0 ? 1.0f : expf(rate * static_cast<float>(t));
      if (t < kChunk) pi[t] = t < at.count ? in.pi[at.token_head(cut, t)] : 0.0f;
    }
    __syncthreads();
    if (before == nullptr) return;
    for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += threads) {
      float sum = *before * powers[t + 1];
      for (int u = 0; u <= t; ++u) sum += powers[t - u] * (pi[u] * pi[u]);
      mass[t] = sum;
      inverse[t] = 1.0f / sqrtf(sum + 1e-6f);
    }
    __syncthreads();
  }

  // values become pi v.
  template <int V, int K>
  __device__ void weigh(const MeansPlace<V, K>& at, float (&values)[K][V]) const {
    TOST_UNROLL
    for (int i = 0; i < K; ++i) {
      TOST_UNROLL
      for (int v = 0; v < V; ++v) values[i][v] *= pi[at.row * K + i];
    }
  }

  // values v become M, and `beyond` M before the thread's tokens. carry: M and R before each chunk.
  template <class T, int V, int K>
  __device__ void moments(const MeansIn<T>& in, const CausalCut& cut, const MeansPlace<V, K>& at,
                          const float* carry, float (&values)[K][V], float (&beyond)[V]) const {
    fill(in, cut, at, carry + at.mass(cut));
    weigh(at, values);
    sums_along<V, K, false>(cut, at, carry + at.sums(cut), scratch, values, beyond, Powers{powers});
  }

  float *powers, *pi, *mass, *inverse, *of_token, *slope, *scratch;
};

template <class T, int V, int K>
__device__ __forceinline__ void write_means(const TokensOut<T>& to, const CausalCut& cut,
                                            const MeansPlace<V, K>& at,
                                            const float (&values)[K][V]) {
  const TokensOut<T> rows = at.in_order(cut, to);
  T* row = rows.data + at.sample * rows.batch_stride + at.channel;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    if (at.token + i >= cut.tokens) continue;
    Pack<T, V> pack;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) store(&pack.values[v], values[i][v]);
    store_pack(row + (at.token + i) * rows.token_stride, pack);
  }
}

struct Silu {
  __device__ explicit Silu(float g) : open(1.0f / (1.0f + expf(-g))), value(g * open) {}
  __device__ float derivative() const { return value * (1.0f - open) + open; }
  float open, value;
};

// Sums over the chunk of pi v and pi^2, as they are after its last token.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads)
    means_sum_pass(MeansIn<T> in, CausalCut cut, float* partial) {
  TOST_SHARED(memory);
  const MeansTile tile(memory);
  const MeansPlace<V, K> at(cut, in.from_end);
  float x[K][V];
  load_chunk(at.in_order(cut, in.values), cut, at, x);
  tile.fill(in, cut, at, nullptr);
  tile.weigh(at, x);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const int after = at.count - 1 - (at.row * K + i);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) x[i][v] *= after >= 0 ? tile.powers[after] : 0.0f;
  }
  write_chunk_sums<V, K>(cut, at, x, tile.scratch, partial + at.sums(cut));
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int t = 0; t < at.count; ++t)
      sum += tile.powers[at.count - 1 - t] * (tile.pi[t] * tile.pi[t]);
    partial[at.mass(cut)] = sum;
  }
}

// y. carry: M and R before each chunk.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    means_output_pass(MeansIn<T> in, CausalCut cut, const float* carry, TokensOut<T> y) {
  TOST_SHARED(memory);
  const MeansTile tile(memory);
  const MeansPlace<V, K> at(cut, in.from_end);
  const bool gated = in.gate.data != nullptr;
  float x[K][V], base[K][V], gate[K][V];
  load_chunk(at.in_order(cut, in.values), cut, at, x);
  load_chunk(at.in_order(cut, in.base), cut, at, base);
  if (gated) load_chunk(at.in_order(cut, in.gate), cut, at, gate);
  float beyond[V];
  tile.moments(in, cut, at, carry, x, beyond);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float mean = x[i][v] * tile.inverse[at.row * K + i];
      const float z = base[i][v] + mean * in.scale[at.channel + v];
      base[i][v] = gated ? z * Silu(gate[i][v]).value : z;
    }
  }
  write_means(y, cut, at, base);
}

// One token a sample, one block a sample. state and next_state [B, H, P + 1]; both may be null,
// and both may be the same.
template <class T>
__global__ void __launch_bounds__(kStepThreads, 2)
    means_step(MeansIn<T> in, CausalCut cut, const double* state, double* next_state,
               TokensOut<T> y) {
  const int64_t sample = blockIdx.x, numbers = cut.width + 1;
  const auto after = [&](int64_t head, int64_t i, float added) {
    const int64_t place = (sample * cut.heads + head) * numbers + i;
    return in.decay[head] * (state != nullptr ? state[place] : 0.0) + static_cast<double>(added);
  };
  const auto keep = [&](int64_t head, int64_t i, double sum) {
    if (next_state != nullptr) next_state[(sample * cut.heads + head) * numbers + i] = sum;
  };
  const float* pi = in.pi + sample * cut.heads;
  for (int64_t c = threadIdx.x; c < cut.channels(); c += blockDim.x) {
    const int64_t head = c / cut.width, i = c % cut.width;
    const auto value = [&](const TokensIn<T>& of) {
      return to_float(of.data[sample * of.batch_stride + c]);
    };
    const float share = pi[head];
    const double sum = after(head, i, share * value(in.values));
    const float mass = static_cast<float>(after(head, cut.width, share * share));
    const float mean = static_cast<float>(sum) * (1.0f / sqrtf(mass + 1e-6f));
    float z = value(in.base) + mean * in.scale[c];
    if (in.gate.data != nullptr) z *= Silu(value(in.gate)).value;
    store(&y.data[sample * y.batch_stride + c], z);
    keep(head, i, sum);
  }
  __syncthreads();  // all have read R
  for (int k = static_cast<int>(threadIdx.x); k < cut.heads; k += static_cast<int>(blockDim.x)) {
    keep(k, cut.width, after(k, cut.width, pi[k] * pi[k]));
  }
}

// Sums over the chunk, as they are at its first token, of what A and B add up; the latter also of
// every token, slope [B, H, T]. scale_part [B, chunks, C]: sums over the chunk for grad_scale.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    means_slope_pass(MeansIn<T> in, TokensIn<T> grad, CausalCut cut, const float* carry,
                     float* partial, float* slope, float* scale_part) {
  TOST_SHARED(memory);
  const MeansTile tile(memory);
  const MeansPlace<V, K> at(cut, in.from_end);
  float x[K][V], d[K][V], mean[K][V];
  load_chunk(at.in_order(cut, in.values), cut, at, x);
  load_chunk(at.in_order(cut, grad), cut, at, d);
  if (in.gate.data != nullptr) {
    load_chunk(at.in_order(cut, in.gate), cut, at, mean);
    TOST_UNROLL
    for (int i = 0; i < K; ++i) {
      TOST_UNROLL
      for (int v = 0; v < V; ++v) d[i][v] *= Silu(mean[i][v]).value;
    }
  }
  float beyond[V];
  tile.moments(in, cut, at, carry, x, beyond);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const int t = at.row * K + i;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float raised = d[i][v] * in.scale[at.channel + v];
      mean[i][v] = d[i][v] * x[i][v] * tile.inverse[t];
      x[i][v] *= raised;
      d[i][v] = raised * tile.inverse[t] * tile.powers[t];
    }
  }
  sum_channels<V, K>(cut, at, x, tile.scratch, tile.of_token);
  for (int t = static_cast<int>(threadIdx.x); t < at.count; t += cut.threads()) {
    const float r = tile.inverse[t];
    tile.slope[t] = -0.5f * tile.of_token[t] * r * r * r;
    slope[at.head_token(cut) + t] = tile.slope[t];
  }
  write_chunk_sums<V, K>(cut, at, mean, tile.scratch, scale_part + at.chunk_channel(cut));
  write_chunk_sums<V, K>(cut, at, d, tile.scratch, partial + at.sums(cut));
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int t = 0; t < at.count; ++t) sum += tile.powers[t] * tile.slope[t];
    partial[at.mass(cut)] = sum;
  }
}

template <class T>
struct MeansGradients {
  TokensOut<T> values, base, gate;  // the last two only with a gate
  float* pi;                        // [B, T, H]
  float* decay_part;                // [B, chunks, H]: sums over the chunk
};

// The gradients. after: A and B after each chunk; slope as above.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    means_gradient_pass(MeansIn<T> in, TokensIn<T> grad, CausalCut cut, const float* carry,
                        const float* after, const float* slope, MeansGradients<T> out) {
  TOST_SHARED(memory);
  const MeansTile tile(memory);
  const MeansPlace<V, K> at(cut, in.from_end);
  float x[K][V], d[K][V], m[K][V], beyond[V], unused[V];
  load_chunk(at.in_order(cut, in.values), cut, at, x);
  load_chunk(at.in_order(cut, grad), cut, at, d);
  for (int t = static_cast<int>(threadIdx.x); t < at.count; t += cut.threads()) {
    tile.slope[t] = slope[at.head_token(cut) + t];
  }
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) m[i][v] = x[i][v];
  }
  tile.moments(in, cut, at, carry, m, beyond);
  if (in.gate.data != nullptr) {
    float base[K][V], gate[K][V];
    load_chunk(at.in_order(cut, in.base), cut, at, base);
    load_chunk(at.in_order(cut, in.gate), cut, at, gate);
    TOST_UNROLL
    for (int i = 0; i < K; ++i) {
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const Silu silu(gate[i][v]);
        const float mean = m[i][v] * tile.inverse[at.row * K + i];
        const float z = base[i][v] + mean * in.scale[at.channel + v];
        gate[i][v] = d[i][v] * z * silu.derivative();
        d[i][v] *= silu.value;
      }
    }
    write_means(out.gate, cut, at, gate);
    write_means(out.base, cut, at, d);
  }
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      d[i][v] *= in.scale[at.channel + v] * tile.inverse[at.row * K + i];
    }
  }
  sums_along<V, K, true>(cut, at, after + at.sums(cut), tile.scratch, d, unused,
                         Powers{tile.powers});
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    TOST_UNROLL
    for (int i = K - 1; i >= 0; --i) {
      m[i][v] = d[i][v] * (i > 0 ? m[i > 0 ? i - 1 : 0][v] : beyond[v]);
      x[i][v] *= d[i][v];
    }
  }
  tile.weigh(at, d);
  write_means(out.values, cut, at, d);
  float* pull = tile.inverse;  // read by nobody from here on
  sum_channels<V, K>(cut, at, m, tile.scratch, tile.of_token);
  sum_channels<V, K>(cut, at, x, tile.scratch, pull);
  for (int t = static_cast<int>(threadIdx.x); t < at.count; t += cut.threads()) {
    float reach = after[at.mass(cut)] * tile.powers[at.count - t];  // B
    for (int u = t; u < at.count; ++u) reach += tile.powers[u - t] * tile.slope[u];
    out.pi[at.token_head(cut, t)] = pull[t] + 2.0f * tile.pi[t] * reach;
    tile.of_token[t] += reach * (t > 0 ? tile.mass[t - 1] : carry[at.mass(cut)]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int t = 0; t < at.count; ++t) sum += tile.of_token[t];
    out.decay_part[at.chunk_head(cut)] = sum;
  }
}

}  // namespace tost::kernels::cuda
