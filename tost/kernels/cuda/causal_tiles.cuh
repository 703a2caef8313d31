// What the causal kernels share. A block works on one head of one chunk of one sample, kCausalChunk
// tokens: K adjacent tokens a row of threads, V channels a thread. Sums over the tokens before (or
// after) are formed in three steps: within the thread, over the rows of the block in shared
// memory, and over the chunks by a scan kernel between two passes.
#pragma once

#include "tost/kernels/cuda/tssa_tiles.cuh"
#include "tost/kernels/tssa_causal.h"

namespace tost::kernels::cuda {

inline constexpr int kChunk = static_cast<int>(kCausalChunk);

inline constexpr int kStepThreads = 512;  // of a block that takes one token, at most

struct CausalCut {
  int64_t batch, tokens, chunks;
  int heads, width;  // H, P
  int lanes, rows;   // packs of a head; rows of threads, kChunk / K

  __host__ __device__ int64_t channels() const { return int64_t{heads} * width; }
  __host__ __device__ int threads() const { return lanes * rows; }
};

// Where a thread stands.
template <int V, int K>
struct CausalPlace {
  __device__ explicit CausalPlace(const CausalCut& cut)
      : head(static_cast<int>(blockIdx.x % cut.heads)),
        chunk(blockIdx.x / cut.heads % cut.chunks),
        sample(blockIdx.x / cut.heads / cut.chunks),
        lane(static_cast<int>(threadIdx.x) % cut.lanes),
        row(static_cast<int>(threadIdx.x) / cut.lanes),
        token(chunk * kChunk + row * K),
        channel(int64_t{head} * cut.width + lane * V) {}

  // Of arrays [B, chunks, C] and [B, chunks, H].
  __device__ int64_t chunk_channel(const CausalCut& cut) const {
    return (sample * cut.chunks + chunk) * cut.channels() + channel;
  }
  __device__ int64_t chunk_head(const CausalCut& cut) const {
    return (sample * cut.chunks + chunk) * cut.heads + head;
  }
  // Of arrays [B, H, T], at the first token of the chunk.
  __device__ int64_t head_token(const CausalCut& cut) const {
    return (sample * cut.heads + head) * cut.tokens + chunk * kChunk;
  }

  int head;
  int64_t chunk, sample;
  int lane, row;
  int64_t token;    // the first of the thread's K
  int64_t channel;  // the first of its V
};

// values[i][v] of the thread's K tokens, 0 beyond the last token.
template <class T, int V, int K>
__device__ __forceinline__ void load_chunk(const TokensIn<T>& tokens, const CausalCut& cut,
                                           const CausalPlace<V, K>& at, float (&values)[K][V]) {
  const T* base = tokens.data + at.sample * tokens.batch_stride + at.channel;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const bool inside = at.token + i < cut.tokens;
    Pack<T, V> pack;
    if (inside) pack = load_pack<T, V>(base + (at.token + i) * tokens.token_stride);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) values[i][v] = inside ? to_float(pack.values[v]) : 0.0f;
  }
}

// rows [rows, P] = what every thread has. Begins and ends with a barrier.
template <int V, int K>
__device__ __forceinline__ void keep_row(const CausalCut& cut, const CausalPlace<V, K>& at,
                                         const float (&own)[V], float* rows) {
  Pack<float, V> pack;
  TOST_UNROLL
  for (int v = 0; v < V; ++v) pack.values[v] = own[v];
  __syncthreads();
  *reinterpret_cast<Pack<float, V>*>(rows + at.row * cut.width + at.lane * V) = pack;
  __syncthreads();
}
template <int V, int K>
__device__ __forceinline__ void add_row(const CausalCut& cut, const CausalPlace<V, K>& at,
                                        const float* rows, int row, float (&sum)[V]) {
  const auto pack = load_pack<float, V>(rows + row * cut.width + at.lane * V);
  TOST_UNROLL
  for (int v = 0; v < V; ++v) sum[v] += pack.values[v];
}

// Sums of the rows of threads before (or after) this one, in the order of the rows. `scratch`
// holds rows x P floats, aligned for packs, and is free again afterwards.
template <int V, int K, bool kBehind>
__device__ __forceinline__ void sum_other_rows(const CausalCut& cut, const CausalPlace<V, K>& at,
                                               const float (&own)[V], float* scratch,
                                               float (&others)[V]) {
  keep_row<V, K>(cut, at, own, scratch);
  TOST_UNROLL
  for (int v = 0; v < V; ++v) others[v] = 0;
  const int count = kBehind ? cut.rows - 1 - at.row : at.row;
  for (int i = 0; i < count; ++i) {
    add_row<V, K>(cut, at, scratch, kBehind ? cut.rows - 1 - i : i, others);
  }
  __syncthreads();
}

// values[i] becomes start + the sum over tokens up to and including i (kBehind: from i on), and
// `beyond` the sum before the thread's tokens (after them).
template <int V, int K, bool kBehind>
__device__ __forceinline__ void sums_along(const CausalCut& cut, const CausalPlace<V, K>& at,
                                           const float* start, float* scratch,
                                           float (&values)[K][V], float (&beyond)[V]) {
  float own[V];
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    TOST_UNROLL
    for (int i = 1; i < K; ++i) {
      if (kBehind) {
        values[K - 1 - i][v] += values[K - i][v];
      } else {
        values[i][v] += values[i - 1][v];
      }
    }
    own[v] = values[kBehind ? 0 : K - 1][v];
  }
  sum_other_rows<V, K, kBehind>(cut, at, own, scratch, beyond);
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    beyond[v] += start[v];
    TOST_UNROLL
    for (int i = 0; i < K; ++i) values[i][v] += beyond[v];
  }
}
template <int V, int K, bool kBehind>
__device__ __forceinline__ void sums_along(const CausalCut& cut, const CausalPlace<V, K>& at,
                                           const float* start, float* scratch,
                                           float (&values)[K][V]) {
  float beyond[V];
  sums_along<V, K, kBehind>(cut, at, start, scratch, values, beyond);
}

// The first row writes the sum of values over the chunk to sums[channel].
template <int V, int K>
__device__ __forceinline__ void write_chunk_sums(const CausalCut& cut, const CausalPlace<V, K>& at,
                                                 const float (&values)[K][V], float* scratch,
                                                 float* sums) {
  float own[V], total[V] = {};
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    own[v] = values[0][v];
    TOST_UNROLL
    for (int i = 1; i < K; ++i) own[v] += values[i][v];
  }
  keep_row<V, K>(cut, at, own, scratch);
  if (at.row == 0) {
    for (int row = 0; row < cut.rows; ++row) add_row<V, K>(cut, at, scratch, row, total);
    TOST_UNROLL
    for (int v = 0; v < V; ++v) sums[v] = total[v];
  }
  __syncthreads();
}

// out[token] = sum over the channels of the head, for the tokens of the chunk. `scratch` holds
// kChunk x lanes floats. Ends with a barrier.
template <int V, int K>
__device__ __forceinline__ void sum_channels(const CausalCut& cut, const CausalPlace<V, K>& at,
                                             const float (&values)[K][V], float* scratch,
                                             float* out) {
  __syncthreads();
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    float sum = values[i][0];
    TOST_UNROLL
    for (int v = 1; v < V; ++v) sum += values[i][v];
    scratch[(at.row * K + i) * cut.lanes + at.lane] = sum;
  }
  __syncthreads();
  for (int token = static_cast<int>(threadIdx.x); token < kChunk; token += cut.threads()) {
    int next = token % cut.lanes;  // neighbours begin on different banks
    float sum = 0;
    for (int i = 0; i < cut.lanes; ++i) {
      sum += scratch[token * cut.lanes + next];
      next = next + 1 < cut.lanes ? next + 1 : 0;
    }
    out[token] = sum;
  }
  __syncthreads();
}

// Sums count as this where they are larger, so that what is made of them stays finite.
inline constexpr float kLargestSum = 8e37f;
__device__ __forceinline__ float at_most_largest(float sum) {
  return sum > kLargestSum ? kLargestSum : sum;  // NaN passes
}

struct MomentSums {
  const float* carry;      // [B, chunks, C]: sums of Pi q before each chunk
  const double* pi_carry;  // [B, chunks, H]
  const float* pi;         // [B, H, T]
};
// The second moments S of the thread's tokens from w, and for all tokens of the chunk 1 / (N +
// 1e-8) and Pi in shared memory, `inverse` and `shares` of kChunk floats each.
template <int V, int K>
__device__ __forceinline__ void second_moments(const CausalCut& cut, const CausalPlace<V, K>& at,
                                               const MomentSums& sums, const float (&w)[K][V],
                                               float* scratch, float* shares, float* inverse,
                                               float (&moment)[K][V]) {
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += cut.threads()) {
    const bool inside = at.chunk * kChunk + t < cut.tokens;
    shares[t] = inside ? sums.pi[at.head_token(cut) + t] : 0.0f;
  }
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += cut.threads()) {
    float within = 0;
    for (int u = 0; u <= t; ++u) within += shares[u];
    const double members = sums.pi_carry[at.chunk_head(cut)] + within;
    inverse[t] = static_cast<float>(1.0 / (members + 1e-8));
  }
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) moment[i][v] = shares[at.row * K + i] * (w[i][v] * w[i][v]);
  }
  sums_along<V, K, false>(cut, at, sums.carry + at.chunk_channel(cut), scratch, moment);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      moment[i][v] = at_most_largest(moment[i][v]) * inverse[at.row * K + i];
    }
  }
}

// Energies up to and including each of the thread's tokens, at least 1e-12.
template <int V, int K>
__device__ __forceinline__ void energies(const CausalCut& cut, const CausalPlace<V, K>& at,
                                         const float* carry, const float (&w)[K][V], float* scratch,
                                         float (&energy)[K][V]) {
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) energy[i][v] = w[i][v] * w[i][v];
  }
  sums_along<V, K, false>(cut, at, carry + at.chunk_channel(cut), scratch, energy);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float sum = at_most_largest(energy[i][v]);
      energy[i][v] = sum < 1e-12f ? 1e-12f : sum;
    }
  }
}

// Adjacent chunks that a thread of scan_chunks() takes.
inline constexpr int kScanChunks = 8;

// before[b, chunk, i] = start + the sum over the chunks before (kBehind: after) of partial
// [B, chunks, width]; totals [b, i] (null: not wanted) the sum over all, start included. start
// and totals are rows of `state_stride`, start may be null; they may be the same. Sums are float64.
// `parts` threads share a column, as in column_sums.cuh. Each adds up kScanChunks chunks, and these
// sums are added one after the other, however many threads there are: what is before a chunk does
// not depend on the chunks that follow.
template <class T, bool kBehind>
__global__ void scan_chunks(const float* partial, int64_t batch, int64_t chunks, int64_t width,
                            int parts, const double* start, double* totals, int64_t state_stride,
                            T* before) {
  TOST_SHARED(memory);
  auto* sums = reinterpret_cast<double*>(memory);  // [parts, columns]
  const Column at(parts);
  const bool inside = at.number < batch * width;
  const int64_t sample = at.number / width, column = at.number % width;
  const int64_t state = sample * state_stride + column;
  const auto place = [&](int64_t step) {
    return (sample * chunks + (kBehind ? chunks - 1 - step : step)) * width + column;
  };
  double base = inside && start != nullptr ? start[state] : 0;
  for (int64_t begin = 0; begin < chunks; begin += int64_t{parts} * kScanChunks) {
    const int64_t first = begin + at.part * kScanChunks;
    float here[kScanChunks];
    double own = 0, sum = 0;
    TOST_UNROLL
    for (int j = 0; j < kScanChunks; ++j) {
      here[j] = inside && first + j < chunks ? partial[place(first + j)] : 0.0f;
      own += here[j];
    }
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int part = 0; part < parts; ++part) {
      if (part == at.part) sum = base;
      base += sums[part * at.columns + static_cast<int>(threadIdx.x) % at.columns];
    }
    TOST_UNROLL
    for (int j = 0; j < kScanChunks; ++j) {
      if (!inside || first + j >= chunks) continue;
      before[place(first + j)] = static_cast<T>(sum);
      sum += here[j];
      if (totals != nullptr && first + j + 1 == chunks) totals[state] = sum;
    }
    __syncthreads();
  }
  if (totals != nullptr && inside && chunks == 0 && at.part == 0) totals[state] = base;
}

}  // namespace tost::kernels::cuda
