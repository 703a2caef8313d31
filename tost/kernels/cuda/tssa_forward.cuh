// The three passes of the forward over w, and the sums between them.
#pragma once

#include "tost/kernels/cuda/tssa_tiles.cuh"

namespace tost::kernels::cuda {

// partial[b, split, c] = sum of w^2 over the tokens of the split.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 3>)
    energy_pass(TokensIn<T> w, Cut cut, float* partial) {
  TOST_SHARED(memory);
  const Place at(cut);
  float sums[V] = {};
  Pack<T, V> tile[kTileTokens];
  for (int64_t first = at.begin + at.row; first < at.own_end; first += cut.tile()) {
    load_tile(w, cut, at, first, at.own_end, tile);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const float x = to_float(tile[i].values[v]);
        sums[v] += x * x;
      }
    }
  }
  reduce_rows<V>(cut, at, sums, reinterpret_cast<float*>(memory),
                 partial + at.block * cut.channels());
}

// shares [tile, H] = the memberships of the tile's first `count` tokens. parts [tile, lanes]. Ends
// with a barrier.
template <class T, int V, int K>
__device__ __forceinline__ void tile_memberships(const Cut& cut, const Place& at,
                                                 const Pack<T, V> (&tile)[K], int count,
                                                 const float (&inverse)[V], const float* temp,
                                                 float* parts, float* shares) {
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    float part = 0;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float x = to_float(tile[i].values[v]) * inverse[v];
      part += x * x;
    }
    parts[(i * cut.rows + at.row) * cut.lanes + at.lane] = part;
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
    const int head = k % cut.heads;
    shares[k] = head_sum(cut, parts, k / cut.heads, head) * temp[head];
  }
  __syncthreads();
  softmax_heads(cut, shares, parts, count);
}

// Memberships of the split's tokens, and partial sums of Pi w^2 [b, split, C] and Pi [b, split, H].
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 2 + kOneMore>)
    membership_pass(TokensIn<T> w, Cut cut, const float* energy, const float* temp, float* pi,
                    float* partial_moment, float* partial_pi) {
  TOST_SHARED(memory);
  float* parts = reinterpret_cast<float*>(memory);  // [tile, lanes]
  const int64_t room = int64_t{cut.tile()} * cut.lanes, other = cut.rows * cut.channels();
  float* shares = parts + (room > other ? room : other);  // [tile, H]
  const Place at(cut, Order::kDescending);
  float inverse[V], one[V], moment[V] = {};
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    inverse[v] = inverse_norm(energy[at.sample * cut.channels() + at.lane * V + v]);
    one[v] = 1;
  }
  double pi_sum = 0;  // of head threadIdx.x
  Pack<T, V> tile[kTileTokens];
  for (int64_t start = at.begin; start < at.own_end; start += cut.tile()) {
    const int count = tile_count(cut, at, start);
    load_tile(w, cut, at, start + at.row, at.own_end, tile);
    tile_memberships(cut, at, tile, count, inverse, temp, parts, shares);
    weigh_squares(cut, at, tile, count, shares, one, moment);
    pi_sum += sum_tokens(cut, shares, count);
    for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
      const int token = k % count, head = k / count;
      pi[(at.sample * cut.heads + head) * cut.tokens + start + token] =
          shares[token * cut.heads + head];
    }
    __syncthreads();
  }
  if (static_cast<int>(threadIdx.x) < cut.heads) {
    partial_pi[int64_t{at.block} * cut.heads + threadIdx.x] = static_cast<float>(pi_sum);
  }
  reduce_rows<V>(cut, at, moment, parts, partial_moment + at.block * cut.channels());
}

// moment [B, C] = sums of Pi w^2 over (N_k + 1e-8), and pi_sum [B, H] = N_k.
static __global__ void combine_moments(const float* partial_moment, const float* partial_pi,
                                       Cut cut, int parts, float* moment, float* pi_sum) {
  const Column at(parts);
  const int64_t i = at.number, channels = cut.channels();
  const bool inside = i < cut.batch * channels;
  const int64_t sample = i / channels, channel = i % channels;
  const int head = static_cast<int>(channel / cut.width);
  double sum = 0, members = 0;
  for (int s = at.part; inside && s < cut.splits; s += parts) {
    const int64_t block = sample * cut.splits + s;
    sum += partial_moment[block * channels + channel];
    members += partial_pi[block * cut.heads + head];
  }
  sum = sum_parts(at, sum);
  members = sum_parts(at, members);
  if (!inside || at.part != 0) return;
  moment[i] = static_cast<float>(sum / (members + 1e-8));
  if (channel % cut.width == 0) pi_sum[sample * cut.heads + head] = static_cast<float>(members);
}

// y = -w Pi D; y and pi are 0 at padding.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 3>)
    output_pass(TokensIn<T> w, Cut cut, const float* moment, float* pi, TokensOut<T> y) {
  const Place at(cut);
  float damping[V];
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    damping[v] = -1.0f / (1.0f + moment[at.sample * cut.channels() + at.lane * V + v]);
  }
  float* shares = pi + (at.sample * cut.heads + at.head) * cut.tokens;
  T* out = y.data + at.sample * y.batch_stride + at.lane * V;
  Pack<T, V> tile[kTileTokens];
  for (int64_t first = at.begin + at.row; first < at.end; first += cut.tile()) {
    float share[kTileTokens];
    load_shares(cut, shares, first, at.own_end, share);
    load_tile(w, cut, at, first, at.own_end, tile);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      const int64_t token = first + i * cut.rows;
      if (token >= at.end) continue;
      const bool own = token < at.own_end;
      if (!own && at.lane % cut.head_lanes == 0) shares[token] = 0;
      Pack<T, V> result;
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        store(&result.values[v], own ? to_float(tile[i].values[v]) * share[i] * damping[v] : 0.0f);
      }
      stream_pack(out + token * y.token_stride, result);
    }
  }
}

}  // namespace tost::kernels::cuda
