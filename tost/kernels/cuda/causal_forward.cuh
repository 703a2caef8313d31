// The passes of the causal forward. Between them scan_chunks() carries sums over the chunks.
#pragma once

#include "tost/kernels/cuda/causal_tiles.cuh"

namespace tost::kernels::cuda {

// partial[b, chunk, c] = sum of w^2 over the chunk.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads)
    causal_energy_pass(TokensIn<T> w, CausalCut cut, float* partial) {
  TOST_SHARED(memory);
  const CausalPlace<V, K> at(cut);
  float values[K][V];
  load_chunk(w, cut, at, values);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) values[i][v] *= values[i][v];
  }
  write_chunk_sums<V, K>(cut, at, values, reinterpret_cast<float*>(memory),
                         partial + at.chunk_channel(cut));
}

struct BiasIn {
  const float* data;  // [H, length]
  int64_t length, position;

  __device__ float at(int head, int64_t token) const {
    return position + token < length ? data[head * length + position + token] : 0.0f;
  }
};

// logits [B, H, T] = (sum_i q / E + P b) factor_k; factor null: 1.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads)
    causal_logit_pass(TokensIn<T> w, CausalCut cut, const float* carry, BiasIn bias,
                      const float* factor, float* logits) {
  TOST_SHARED(memory);
  float* sums = reinterpret_cast<float*>(memory);  // [kChunk]
  float* scratch = sums + kChunk;
  const CausalPlace<V, K> at(cut);
  float x[K][V], energy[K][V];
  load_chunk(w, cut, at, x);
  energies<V, K>(cut, at, carry, x, scratch, energy);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) energy[i][v] = x[i][v] * x[i][v] / energy[i][v];
  }
  sum_channels<V, K>(cut, at, energy, scratch, sums);
  const float scale = factor != nullptr ? factor[at.head] : 1.0f;
  for (int t = static_cast<int>(threadIdx.x); t < kChunk; t += cut.threads()) {
    const int64_t token = at.chunk * kChunk + t;
    if (token >= cut.tokens) continue;
    logits[at.head_token(cut) + t] =
        (sums[t] + static_cast<float>(cut.width) * bias.at(at.head, token)) * scale;
  }
}

// Heads of which a thread reads the numbers before it writes any: the compiler cannot know that
// results lie elsewhere, and would wait for each in its turn.
inline constexpr int kHeadsAtOnce = 4;

// values [B, H, T] become their softmax over H; one thread a token.
static __global__ void causal_softmax(CausalCut cut, float* values) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= cut.batch * cut.tokens) return;
  float* token = values + i / cut.tokens * cut.heads * cut.tokens + i % cut.tokens;
  float most = token[0], sum = 0;
  for (int k = 1; k < cut.heads; ++k) {
    const float value = token[k * cut.tokens];
    most = value > most || value != value ? value : most;
  }
  for (int k = 0; k < cut.heads; ++k) sum += expf(token[k * cut.tokens] - most);
  for (int first = 0; first < cut.heads; first += kHeadsAtOnce) {
    float shares[kHeadsAtOnce] = {};
    TOST_UNROLL
    for (int j = 0; j < kHeadsAtOnce; ++j) {
      const int k = first + j;
      if (k < cut.heads) shares[j] = expf(token[k * cut.tokens] - most) / sum;
    }
    TOST_UNROLL
    for (int j = 0; j < kHeadsAtOnce; ++j) {
      const int k = first + j;
      if (k < cut.heads) token[k * cut.tokens] = shares[j];
    }
  }
}

// Sums of Pi w^2 [b, chunk, C] and of Pi [b, chunk, H] over the chunk.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads)
    causal_moment_pass(TokensIn<T> w, CausalCut cut, const float* pi, float* partial,
                       float* partial_pi) {
  TOST_SHARED(memory);
  const CausalPlace<V, K> at(cut);
  const float* shares = pi + at.head_token(cut) + at.row * K;
  float values[K][V];
  load_chunk(w, cut, at, values);
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const float share = at.token + i < cut.tokens ? shares[i] : 0.0f;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) values[i][v] *= share * values[i][v];
  }
  write_chunk_sums<V, K>(cut, at, values, reinterpret_cast<float*>(memory),
                         partial + at.chunk_channel(cut));
  if (threadIdx.x == 0) {
    const int64_t left = cut.tokens - at.chunk * kChunk;
    float sum = 0;
    for (int t = 0; t < kChunk && t < left; ++t) sum += pi[at.head_token(cut) + t];
    partial_pi[at.chunk_head(cut)] = sum;
  }
}

// y = -w Pi D.
template <class T, int V, int K, int kThreads>
__global__ void __launch_bounds__(kThreads, kBlocks<kThreads, K <= 4 ? 3 : 1>)
    causal_output_pass(TokensIn<T> w, CausalCut cut, MomentSums sums, TokensOut<T> y) {
  TOST_SHARED(memory);
  float* shares = reinterpret_cast<float*>(memory);  // [kChunk]
  float* inverse = shares + kChunk;                  // [kChunk]
  const CausalPlace<V, K> at(cut);
  float x[K][V], moment[K][V];
  load_chunk(w, cut, at, x);
  second_moments<V, K>(cut, at, sums, x, inverse + kChunk, shares, inverse, moment);
  T* out = y.data + at.sample * y.batch_stride + at.channel;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    if (at.token + i >= cut.tokens) continue;
    const float share = shares[at.row * K + i];
    Pack<T, V> result;
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      store(&result.values[v], -(x[i][v] * share) / (1.0f + moment[i][v]));
    }
    store_pack(out + (at.token + i) * y.token_stride, result);
  }
}

// One token a sample: everything at once, one block a sample. state and next_state [B, 2 C + H]
// (state null: zeros; they may be the same), pi [B, H] may be null. Shared: C + 2 H floats.
template <class T>
__global__ void __launch_bounds__(kStepThreads, 2)
    causal_step(TokensIn<T> w, CausalCut cut, const float* temp, BiasIn bias, const double* state,
                double* next_state, float* pi, TokensOut<T> y) {
  TOST_SHARED(memory);
  const int64_t channels = cut.channels(), sample = blockIdx.x;
  float* parts = reinterpret_cast<float*>(memory);  // [C]
  float* logits = parts + channels;                 // [H]
  float* shares = logits + cut.heads;               // [H]
  const int64_t row = sample * (2 * channels + cut.heads);
  const auto before = [&](int64_t i) { return state != nullptr ? state[row + i] : 0.0; };
  const T* x = w.data + sample * w.batch_stride;
  for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const float value = to_float(x[c]), q = value * value;
    const double sum = before(c) + q;
    const float energy = at_most_largest(static_cast<float>(sum));
    parts[c] = q / (energy < 1e-12f ? 1e-12f : energy);
    if (next_state != nullptr) next_state[row + c] = sum;
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < cut.heads; k += static_cast<int>(blockDim.x)) {
    int next = k % cut.width;  // neighbours begin on different banks
    float sum = 0;
    for (int i = 0; i < cut.width; ++i) {
      sum += parts[int64_t{k} * cut.width + next];
      next = next + 1 < cut.width ? next + 1 : 0;
    }
    logits[k] = (sum + static_cast<float>(cut.width) * bias.at(k, 0)) * temp[k];
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < cut.heads; k += static_cast<int>(blockDim.x)) {
    float most = logits[0], sum = 0;
    for (int j = 1; j < cut.heads; ++j) {
      most = logits[j] > most || logits[j] != logits[j] ? logits[j] : most;
    }
    for (int j = 0; j < cut.heads; ++j) sum += expf(logits[j] - most);
    shares[k] = expf(logits[k] - most) / sum;
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
    const int head = static_cast<int>(c / cut.width);
    const float value = to_float(x[c]), share = shares[head];
    const double sum = before(channels + c) + share * (value * value);
    const double members = before(2 * channels + head) + share;
    const float moment =
        at_most_largest(static_cast<float>(sum)) * static_cast<float>(1.0 / (members + 1e-8));
    store(&y.data[sample * y.batch_stride + c], -(value * share) / (1.0f + moment));
    if (next_state != nullptr) next_state[row + channels + c] = sum;
  }
  __syncthreads();  // all have read the sums of Pi
  for (int k = static_cast<int>(threadIdx.x); k < cut.heads; k += static_cast<int>(blockDim.x)) {
    const double members = before(2 * channels + k) + shares[k];
    if (next_state != nullptr) next_state[row + 2 * channels + k] = members;
    if (pi != nullptr) pi[sample * cut.heads + k] = shares[k];
  }
}

}  // namespace tost::kernels::cuda
