// The forward of a sample that fits a block's shared memory: w is read once, y written once.
#pragma once

#include "tost/kernels/cuda/tssa_forward.cuh"

namespace tost::kernels::cuda {

// Threads of such a block: enough to keep loads under way, few enough to have registers.
inline constexpr int kWholeThreads = 512;

// A block's shared memory.
struct WholeMemory {
  __host__ __device__ WholeMemory(const Cut& cut, int64_t value_bytes) {
    const int64_t channels = cut.channels(), floats = sizeof(float);
    const int64_t lanes = int64_t{cut.tile()} * cut.lanes, rows = cut.rows * channels;
    sums = (cut.tokens * channels * value_bytes + 15) / 16 * 16;
    shares = sums + channels * floats;
    members = shares + cut.tokens * cut.heads * floats;
    scratch = members + cut.heads * floats;
    bytes = scratch + (lanes > rows ? lanes : rows) * floats;
  }
  // Bytes from its beginning, where w [N, C] lies: per channel [C], memberships [N, H], per head
  // [H], and what the passes work in.
  int64_t sums, shares, members, scratch, bytes;
};

// Those that are not null are written.
struct WholeResults {
  float *pi, *energy, *moment, *pi_sum;
};

// w into shared memory; sums [C] = its energies.
template <class T, int V, int kThreads>
__device__ __forceinline__ void hold_sample(const TokensIn<T>& w, const Cut& cut, const Place& at,
                                            T* held, float* scratch, float* sums) {
  float own[V] = {};
  Pack<T, V> tile[kTileTokens];
  for (int64_t first = at.row; first < at.own_end; first += cut.tile()) {
    load_tile(w, cut, at, first, at.own_end, tile);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      const int64_t token = first + i * cut.rows;
      if (token >= at.own_end) continue;
      *reinterpret_cast<Pack<T, V>*>(held + token * cut.channels() + at.lane * V) = tile[i];
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const float x = to_float(tile[i].values[v]);
        own[v] += x * x;
      }
    }
  }
  reduce_rows<V>(cut, at, own, scratch, sums);
}

// shares [N, H] = the memberships, sums [C] = those of Pi w^2, members [H] = those of Pi.
template <class T, int V, int kThreads>
__device__ __forceinline__ void assign_sample(const TokensIn<T>& held, const Cut& cut,
                                              const Place& at, const float* temp, float* shares,
                                              float* scratch, float* members, float* sums) {
  float inverse[V], one[V], moment[V] = {};
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    inverse[v] = inverse_norm(sums[at.lane * V + v]);
    one[v] = 1;
  }
  double pi_sum = 0;  // of head threadIdx.x
  Pack<T, V> tile[kTileTokens];
  for (int64_t start = 0; start < at.own_end; start += cut.tile()) {
    const int count = tile_count(cut, at, start);
    float* mine = shares + start * cut.heads;
    load_tile(held, cut, at, start + at.row, at.own_end, tile);
    tile_memberships(cut, at, tile, count, inverse, temp, scratch, mine);
    weigh_squares(cut, at, tile, count, mine, one, moment);
    pi_sum += sum_tokens(cut, mine, count);
    __syncthreads();
  }
  if (static_cast<int>(threadIdx.x) < cut.heads) {
    members[threadIdx.x] = static_cast<float>(pi_sum);
  }
  reduce_rows<V>(cut, at, moment, scratch, sums);
}

// What later calls ask for of the sample, sums being those of assign_sample().
static __device__ __forceinline__ void give_statistics(const Cut& cut, const Place& at,
                                                       const float* shares, const float* members,
                                                       const WholeResults& results) {
  if (results.pi_sum != nullptr && static_cast<int>(threadIdx.x) < cut.heads) {
    results.pi_sum[at.sample * cut.heads + threadIdx.x] = members[threadIdx.x];
  }
  if (results.pi == nullptr) return;
  float* pi = results.pi + at.sample * cut.heads * cut.tokens;
  for (int64_t k = threadIdx.x; k < cut.heads * cut.tokens; k += cut.threads()) {
    const int64_t head = k / cut.tokens, token = k % cut.tokens;
    pi[k] = token < at.own_end ? shares[token * cut.heads + head] : 0.0f;
  }
}

// All three passes of tssa_forward.cuh. One block a sample: splits is 1, split_tokens N.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads)
    whole_pass(TokensIn<T> w, Cut cut, const float* temp, WholeResults results, TokensOut<T> y) {
  TOST_SHARED(memory);
  const WholeMemory at_byte(cut, sizeof(T));
  T* held = reinterpret_cast<T*>(memory);
  float* sums = reinterpret_cast<float*>(memory + at_byte.sums);
  float* shares = reinterpret_cast<float*>(memory + at_byte.shares);
  float* members = reinterpret_cast<float*>(memory + at_byte.members);
  float* scratch = reinterpret_cast<float*>(memory + at_byte.scratch);
  const Place at(cut);
  const int64_t channels = cut.channels(), first_channel = at.sample * channels + at.lane * V;
  hold_sample<T, V, kThreads>(w, cut, at, held, scratch, sums);
  if (at.row == 0 && results.energy != nullptr) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) results.energy[first_channel + v] = sums[at.lane * V + v];
  }
  const TokensIn<T> sample{held, 0, channels};
  assign_sample<T, V, kThreads>(sample, cut, at, temp, shares, scratch, members, sums);
  give_statistics(cut, at, shares, members, results);
  float damping[V];
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    const double sum = sums[at.lane * V + v], count = members[at.head];
    const auto moment = static_cast<float>(sum / (count + 1e-8));
    damping[v] = -1.0f / (1.0f + moment);
    if (at.row == 0 && results.moment != nullptr) results.moment[first_channel + v] = moment;
  }
  T* out = y.data + at.sample * y.batch_stride + at.lane * V;
  for (int64_t token = at.row; token < cut.tokens; token += cut.rows) {
    const bool own = token < at.own_end;
    Pack<T, V> result = {};
    if (own) result = load_pack<T, V>(held + token * channels + at.lane * V);
    const float share = own ? shares[token * cut.heads + at.head] : 0.0f;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      store(&result.values[v], own ? to_float(result.values[v]) * share * damping[v] : 0.0f);
    }
    store_pack(out + token * y.token_stride, result);
  }
}

}  // namespace tost::kernels::cuda
