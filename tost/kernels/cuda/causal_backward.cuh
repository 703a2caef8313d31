// The passes of the causal backward. Formulas in kernels/tssa_causal.h; r = dS / N'.
#pragma once

#include "tost/kernels/cuda/causal_forward.cuh"

namespace tost::kernels::cuda {

// r of the thread's tokens, from w, g and the second moments.
template <int V, int K>
__device__ __forceinline__ void moment_gradients(const CausalPlace<V, K>& at, const float* shares,
                                                 const float* inverse, const float (&w)[K][V],
                                                 const float (&g)[K][V],
                                                 const float (&moment)[K][V], float (&r)[K][V]) {
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const int t = at.row * K + i;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float damping = 1.0f / (1.0f + moment[i][v]);
      r[i][v] = damping * damping * (g[i][v] * w[i][v] * shares[t]) * inverse[t];
    }
  }
}
// Second moments become D.
template <int V, int K>
__device__ __forceinline__ void dampings(float (&moment)[K][V]) {
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) moment[i][v] = 1.0f / (1.0f + moment[i][v]);
  }
}

// Sums over the chunk of r [b, chunk, C]; and of sum_i r S for every token [B, H, T].
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    causal_alignment_pass(TokensIn<T> w, TokensIn<T> grad, CausalCut cut, MomentSums sums,
                          float* partial, float* spread) {
  TOST_SHARED(memory);
  float* shares = reinterpret_cast<float*>(memory);
  float* inverse = shares + kChunk;
  float* of_token = inverse + kChunk;
  float* scratch = of_token + kChunk;
  const CausalPlace<V, K> at(cut);
  float x[K][V], g[K][V], moment[K][V], r[K][V];
  load_chunk(w, cut, at, x);
  load_chunk(grad, cut, at, g);
  second_moments<V, K>(cut, at, sums, x, scratch, shares, inverse, moment);
  moment_gradients<V, K>(at, shares, inverse, x, g, moment, r);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) moment[i][v] *= r[i][v];
  }
  sum_channels<V, K>(cut, at, moment, scratch, of_token);
  for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += cut.threads()) {
    if (at.chunk * kChunk + t < cut.tokens) spread[at.head_token(cut) + t] = of_token[t];
  }
  write_chunk_sums<V, K>(cut, at, r, scratch, partial + at.chunk_channel(cut));
}

// Sums over the chunks after this one.
struct Behind {
  const float* moment;  // [B, chunks, C]: of r
  const float* spread;  // [B, chunks, H]: of sum_i r S
  const float* logit;   // [B, chunks, C]: of f, see logit_terms()
};

struct MomentTile {
  float *shares, *inverse, *scratch;  // as second_moments() takes them
};
// The dampings D of the thread's tokens, and r, the gradients of the moments, summed from each of
// them on.
template <int V, int K>
__device__ __forceinline__ void moments_and_gradients(
    const CausalCut& cut, const CausalPlace<V, K>& at, const MomentSums& sums, const Behind& behind,
    const MomentTile& tile, const float (&x)[K][V], const float (&g)[K][V], float (&damping)[K][V],
    float (&r)[K][V]) {
  second_moments<V, K>(cut, at, sums, x, tile.scratch, tile.shares, tile.inverse, damping);
  moment_gradients<V, K>(at, tile.shares, tile.inverse, x, g, damping, r);
  dampings<V, K>(damping);
  sums_along<V, K, true>(cut, at, behind.moment + at.chunk_channel(cut), tile.scratch, r);
}

// grad_share [B, H, T] = dPi. spread [B, H, T]: sum_i r S of every token; grad_pi may be null.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    causal_share_pass(TokensIn<T> w, TokensIn<T> grad, CausalCut cut, MomentSums sums,
                      Behind behind, const float* spread, const float* grad_pi, float* grad_share) {
  TOST_SHARED(memory);
  float* shares = reinterpret_cast<float*>(memory);
  float* inverse = shares + kChunk;
  float* of_token = inverse + kChunk;
  float* scratch = of_token + kChunk;
  const CausalPlace<V, K> at(cut);
  float x[K][V], g[K][V], damping[K][V], r[K][V];
  load_chunk(w, cut, at, x);
  load_chunk(grad, cut, at, g);
  moments_and_gradients<V, K>(cut, at, sums, behind, {shares, inverse, scratch}, x, g, damping, r);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      r[i][v] = x[i][v] * (x[i][v] * r[i][v] - g[i][v] * damping[i][v]);
    }
  }
  sum_channels<V, K>(cut, at, r, scratch, of_token);
  for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += cut.threads()) {
    if (at.chunk * kChunk + t >= cut.tokens) continue;
    const int64_t place = at.head_token(cut) + t;
    const int64_t end =
        cut.tokens - at.chunk * kChunk < kChunk ? cut.tokens - at.chunk * kChunk : kChunk;
    float from_here = behind.spread[at.chunk_head(cut)];
    for (int64_t u = end - 1; u >= t; --u) from_here += spread[place - t + u];
    grad_share[place] = of_token[t] - from_here + (grad_pi != nullptr ? grad_pi[place] : 0.0f);
  }
}

// grad_share becomes da = temp dlogit, and logits (a) become dlogit a; one thread a token.
static __global__ void causal_softmax_gradient(CausalCut cut, const float* pi, const float* temp,
                                               float* grad_share, float* logits) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= cut.batch * cut.tokens) return;
  const int64_t first = i / cut.tokens * cut.heads * cut.tokens + i % cut.tokens;
  float dot = 0;
  for (int k = 0; k < cut.heads; ++k) {
    const int64_t place = first + k * cut.tokens;
    dot += pi[place] * grad_share[place];
  }
  for (int begin = 0; begin < cut.heads; begin += kHeadsAtOnce) {
    float gradients[kHeadsAtOnce] = {}, energies[kHeadsAtOnce] = {};
    TOST_UNROLL
    for (int j = 0; j < kHeadsAtOnce; ++j) {
      if (begin + j >= cut.heads) continue;
      const int64_t place = first + (begin + j) * cut.tokens;
      gradients[j] = pi[place] * (grad_share[place] - dot);
      energies[j] = logits[place];
    }
    TOST_UNROLL
    for (int j = 0; j < kHeadsAtOnce; ++j) {
      if (begin + j >= cut.heads) continue;
      const int64_t place = first + (begin + j) * cut.tokens;
      logits[place] = energies[j] * gradients[j];
      grad_share[place] = gradients[j] * temp[begin + j];
    }
  }
}

// partial[b, chunk, H] = sum of values [B, H, T] over the chunk; one thread each.
static __global__ void sum_of_chunks(CausalCut cut, const float* values, float* partial) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= cut.batch * cut.chunks * cut.heads) return;
  const int64_t head = i % cut.heads, chunk = i / cut.heads % cut.chunks,
                sample = i / cut.heads / cut.chunks;
  const float* first = values + (sample * cut.heads + head) * cut.tokens + chunk * kChunk;
  const int64_t left = cut.tokens - chunk * kChunk;
  float sum = 0;
  for (int64_t t = 0; t < kChunk && t < left; ++t) sum += first[t];
  partial[i] = sum;
}

// grad_bias [H, length] = P sum over samples of da, 0 where the call has no token; one thread each.
static __global__ void causal_bias_gradient(CausalCut cut, const float* grad_logit, int64_t length,
                                            int64_t position, float* grad_bias) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= cut.heads * length) return;
  const int64_t head = i / length, token = i % length - position;
  double sum = 0;
  if (token >= 0 && token < cut.tokens) {
    for (int64_t b = 0; b < cut.batch; ++b) {
      sum += grad_logit[(b * cut.heads + head) * cut.tokens + token];
    }
  }
  grad_bias[i] = static_cast<float>(sum * cut.width);
}

// f = da q / E^2 of the thread's tokens, 0 where E is clamped. energy becomes f.
template <int V, int K>
__device__ __forceinline__ void logit_terms(const CausalCut& cut, const CausalPlace<V, K>& at,
                                            const float* grad_logit, const float (&w)[K][V],
                                            float (&energy)[K][V]) {
  const float* gradient = grad_logit + at.head_token(cut) + at.row * K;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const float da = at.token + i < cut.tokens ? gradient[i] : 0.0f;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float e = energy[i][v], share = w[i][v] * w[i][v] / e;
      energy[i][v] = e <= 1e-12f ? 0.0f : da * share / e;
    }
  }
}

// partial[b, chunk, c] = sum of f over the chunk.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 3 : 1>)
    causal_term_pass(TokensIn<T> w, CausalCut cut, const float* carry, const float* grad_logit,
                     float* partial) {
  TOST_SHARED(memory);
  float* scratch = reinterpret_cast<float*>(memory);
  const CausalPlace<V, K> at(cut);
  float x[K][V], energy[K][V];
  load_chunk(w, cut, at, x);
  energies<V, K>(cut, at, carry, x, scratch, energy);
  logit_terms<V, K>(cut, at, grad_logit, x, energy);
  write_chunk_sums<V, K>(cut, at, energy, scratch, partial + at.chunk_channel(cut));
}

// grad_w.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 2 : 1>)
    causal_gradient_pass(TokensIn<T> w, TokensIn<T> grad, CausalCut cut, MomentSums sums,
                         const float* carry, const float* grad_logit, Behind behind,
                         TokensOut<T> grad_w) {
  TOST_SHARED(memory);
  float* shares = reinterpret_cast<float*>(memory);
  float* inverse = shares + kChunk;
  float* scratch = inverse + kChunk;
  const CausalPlace<V, K> at(cut);
  float x[K][V], g[K][V], damping[K][V], r[K][V];
  load_chunk(w, cut, at, x);
  load_chunk(grad, cut, at, g);
  moments_and_gradients<V, K>(cut, at, sums, behind, {shares, inverse, scratch}, x, g, damping, r);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const float share = shares[at.row * K + i];
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      g[i][v] = share * (2.0f * x[i][v] * r[i][v] - g[i][v] * damping[i][v]);
    }
  }
  float(&energy)[K][V] = damping;
  float(&terms)[K][V] = r;
  energies<V, K>(cut, at, carry, x, scratch, energy);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) terms[i][v] = energy[i][v];
  }
  logit_terms<V, K>(cut, at, grad_logit, x, terms);
  sums_along<V, K, true>(cut, at, behind.logit + at.chunk_channel(cut), scratch, terms);
  const float* gradient = grad_logit + at.head_token(cut) + at.row * K;
  T* out = grad_w.data + at.sample * grad_w.batch_stride + at.channel;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    if (at.token + i >= cut.tokens) continue;
    const float da = gradient[i];
    Pack<T, V> result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      store(&result.values[v], g[i][v] + 2.0f * x[i][v] * (da / energy[i][v] - terms[i][v]));
    }
    store_pack(out + (at.token + i) * grad_w.token_stride, result);
  }
}

}  // namespace tost::kernels::cuda
