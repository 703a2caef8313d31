// The three passes of the backward over w and grad_y, and the sums between them. Formulas in
// kernels/tssa.h.
#pragma once

#include "tost/kernels/cuda/tssa_tiles.cuh"

namespace tost::kernels::cuda {

// What the forward left, of all samples.
struct Kept {
  const float* pi;      // [B, H, N]
  const float* energy;  // [B, C]
  const float* moment;  // [B, C]
  const float* pi_sum;  // [B, H]
};

// partial[b, split, c] = sum of g w Pi over the tokens of the split.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 3>)
    alignment_pass(TokensIn<T> w, TokensIn<T> grad, Cut cut, const float* pi, float* partial) {
  TOST_SHARED(memory);
  const Place at(cut);
  const float* shares = pi + (at.sample * cut.heads + at.head) * cut.tokens;
  float sums[V] = {};
  Pack<T, V> x[kTileTokens], g[kTileTokens];
  for (int64_t first = at.begin + at.row; first < at.own_end; first += cut.tile()) {
    load_tile(w, cut, at, first, at.own_end, x);
    load_tile(grad, cut, at, first, at.own_end, g);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      const int64_t token = first + i * cut.rows;
      if (token >= at.own_end) continue;
      const float share = shares[token];
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        sums[v] += to_float(g[i].values[v]) * to_float(x[i].values[v]) * share;
      }
    }
  }
  reduce_rows<V>(cut, at, sums, reinterpret_cast<float*>(memory),
                 partial + at.block * cut.channels());
}

// From G to dS = D^2 G over N' = N + 1e-8, in place of G; spread[b, k] = sum_i dS S of the head,
// over N'. One block a sample and head.
static __global__ void moment_gradient(Cut cut, Kept kept, float* grad_moment, float* spread) {
  const Column at(static_cast<int>(blockDim.x));
  const float members = kept.pi_sum[at.number] + 1e-8f;
  double sum = 0;
  for (int i = at.part; i < cut.width; i += static_cast<int>(blockDim.x)) {
    const int64_t c = at.number * cut.width + i;
    const float moment = kept.moment[c], damping = 1.0f / (1.0f + moment);
    const float gradient = damping * damping * grad_moment[c] / members;
    grad_moment[c] = gradient;
    sum += double{gradient} * moment;
  }
  sum = sum_parts(at, sum);
  if (at.part == 0) spread[at.number] = static_cast<float>(sum);
}

struct LogitResults {
  float* grad_logit;    // [B, H, N]: da, the gradient of a
  float* partial_sum;   // [B, splits, C]: sum of da w^2
  float* partial_temp;  // [B, splits, H]: sum of dlogit a
};

struct LogitInputs {
  const float* spread;   // [B, H]
  const float* temp;     // [H]
  const float* grad_pi;  // [B, H, N] or null
};

// Shared memory of logit_pass().
struct LogitTile {
  float *parts, *logits;             // [tile, lanes]: shares of dPi, then da [tile, H]; shares of a
  float *grads, *energies, *shares;  // [tile, H]: dPi; a, then dlogit a; Pi
};

// From the parts to da and dlogit a of the tile's first `count` tokens, which begin at `start`.
// Every thread adds up its token's heads itself, as in softmax_heads().
__device__ __forceinline__ void tile_logit_gradients(const Cut& cut, const Place& at,
                                                     const LogitTile& tile, const float* pi,
                                                     const LogitInputs& in, int64_t start,
                                                     int count, float* grad_logit) {
  const int64_t first = at.sample * cut.heads * cut.tokens + start;
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
    const int token = k / cut.heads, head = k % cut.heads;
    const float outside =
        in.grad_pi != nullptr ? in.grad_pi[first + head * cut.tokens + token] : 0.0f;
    tile.shares[k] = pi[first + head * cut.tokens + token];
    tile.grads[k] =
        head_sum(cut, tile.parts, token, head) - in.spread[at.sample * cut.heads + head] + outside;
    tile.energies[k] = head_sum(cut, tile.logits, token, head);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
    const int token = k / cut.heads, head = k % cut.heads, row = token * cut.heads;
    float dot = 0;
    for (int j = 0; j < cut.heads; ++j) dot += tile.shares[row + j] * tile.grads[row + j];
    const float gradient = tile.shares[k] * (tile.grads[k] - dot);
    const float grad = gradient * in.temp[head];
    tile.energies[k] *= gradient;
    tile.parts[k] = grad;
    grad_logit[first + head * cut.tokens + token] = grad;
  }
  __syncthreads();
}

// The gradient of the membership logits.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 2>)
    logit_pass(TokensIn<T> w, TokensIn<T> grad, Cut cut, Kept kept, const float* grad_moment,
               LogitInputs in, LogitResults results) {
  TOST_SHARED(memory);
  const int64_t room = int64_t{cut.tile()} * cut.lanes, other = cut.rows * cut.channels();
  const int64_t shares = int64_t{cut.tile()} * cut.heads;
  float* parts = reinterpret_cast<float*>(memory);
  float* logits = parts + (room > other ? room : other);
  float* per_head = logits + room;
  const LogitTile tile{parts, logits, per_head, per_head + shares, per_head + 2 * shares};
  const Place at(cut, Order::kDescending);
  const int64_t channel = at.sample * cut.channels() + at.lane * V;
  float inverse[V], damping[V], moment_grad[V], sums[V] = {};
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    inverse[v] = inverse_norm(kept.energy[channel + v]);
    damping[v] = 1.0f / (1.0f + kept.moment[channel + v]);
    moment_grad[v] = grad_moment[channel + v];
  }
  double temp_sum = 0;  // of head threadIdx.x
  Pack<T, V> x[kTileTokens], g[kTileTokens];
  for (int64_t start = at.begin; start < at.own_end; start += cut.tile()) {
    const int count = tile_count(cut, at, start);
    load_tile(w, cut, at, start + at.row, at.own_end, x);
    load_tile(grad, cut, at, start + at.row, at.own_end, g);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      const int64_t place = int64_t{i * cut.rows + at.row} * cut.lanes + at.lane;
      float part = 0, logit = 0;
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const float value = to_float(x[i].values[v]), unit = value * inverse[v];
        part += value * (value * moment_grad[v] - to_float(g[i].values[v]) * damping[v]);
        logit += unit * unit;
      }
      tile.parts[place] = part;
      tile.logits[place] = logit;
    }
    tile_logit_gradients(cut, at, tile, kept.pi, in, start, count, results.grad_logit);
    weigh_squares(cut, at, x, count, tile.parts, inverse, sums);
    temp_sum += sum_tokens(cut, tile.energies, count);
    __syncthreads();
  }
  if (static_cast<int>(threadIdx.x) < cut.heads) {
    results.partial_temp[int64_t{at.block} * cut.heads + threadIdx.x] =
        static_cast<float>(temp_sum);
  }
  reduce_rows<V>(cut, at, sums, tile.parts, results.partial_sum + at.block * cut.channels());
}

// grad_w. logit_sum [B, C] = sum over tokens of da w^2 / E.
template <class T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, 1 + kOneMore>)
    gradient_pass(TokensIn<T> w, TokensIn<T> grad, Cut cut, Kept kept, const float* grad_moment,
                  const float* grad_logit, const float* logit_sum, TokensOut<T> grad_w) {
  const Place at(cut);
  const int64_t channel = at.sample * cut.channels() + at.lane * V;
  float twice_inverse[V], damping[V], moment_grad[V], mean[V];
  TOST_UNROLL
  for (int v = 0; v < V; ++v) {
    const float inverse = inverse_norm(kept.energy[channel + v]);
    const bool clamped = sqrtf(kept.energy[channel + v]) < 1e-12f;
    twice_inverse[v] = 2.0f * inverse * inverse;
    damping[v] = 1.0f / (1.0f + kept.moment[channel + v]);
    moment_grad[v] = 2.0f * grad_moment[channel + v];
    mean[v] = clamped ? 0.0f : logit_sum[channel + v];
  }
  const int64_t head = (at.sample * cut.heads + at.head) * cut.tokens;
  T* out = grad_w.data + at.sample * grad_w.batch_stride + at.lane * V;
  Pack<T, V> x[kTileTokens], g[kTileTokens];
  for (int64_t first = at.begin + at.row; first < at.end; first += cut.tile()) {
    float share[kTileTokens], logit[kTileTokens];
    load_shares(cut, kept.pi + head, first, at.own_end, share);
    load_shares(cut, grad_logit + head, first, at.own_end, logit);
    load_tile(w, cut, at, first, at.own_end, x);
    load_tile(grad, cut, at, first, at.own_end, g);
    TOST_UNROLL
    for (int i = 0; i < kTileTokens; ++i) {
      const int64_t token = first + i * cut.rows;
      if (token >= at.end) continue;
      const bool own = token < at.own_end;
      Pack<T, V> result;
      TOST_UNROLL
      for (int v = 0; v < V; ++v) {
        const float value = to_float(x[i].values[v]);
        const float gradient =
            share[i] * (value * moment_grad[v] - to_float(g[i].values[v]) * damping[v]) +
            value * twice_inverse[v] * (logit[i] - mean[v]);
        store(&result.values[v], own ? gradient : 0.0f);
      }
      stream_pack(out + token * grad_w.token_stride, result);
    }
  }
}

}  // namespace tost::kernels::cuda
