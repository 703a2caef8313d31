// What the bidirectional kernels share: how a sample is cut, where a thread stands, sums over rows
// of threads, and the memberships of a tile.
//
// A token is `lanes` packs of V channels. A block has `rows` tokens side by side, one pack a
// thread, and each thread works on kTileTokens tokens at a time: their loads are under way
// together. A sample is cut into `splits` ranges of tokens, one block each.
#pragma once

#include "tost/kernels/cuda/column_sums.cuh"

namespace tost::kernels::cuda {

// Blocks that a multiprocessor has registers for: while one is at a barrier or waits for memory
// others work. Larger blocks take what there is.
template <int kThreads, int kWanted>
inline constexpr int kBlocks = kThreads <= 256 ? kWanted : 1;

// sm_90's registers are enough for one more where sm_80's compiler would spill some.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int kOneMore = 0;
#else
inline constexpr int kOneMore = 1;
#endif

inline constexpr int kTileTokens = 4;

struct Cut {
  int64_t batch, tokens;
  int heads, width;       // H, P
  int lanes, head_lanes;  // packs of a token, of a head
  int rows;
  int splits;
  int64_t split_tokens;
  const int64_t* lengths;  // [B] or null

  __host__ __device__ int64_t channels() const { return int64_t{heads} * width; }
  __host__ __device__ int threads() const { return lanes * rows; }
  __host__ __device__ int tile() const { return rows * kTileTokens; }
};

template <class T>
struct TokensIn {
  const T* data;
  int64_t batch_stride, token_stride;
};
template <class T>
struct TokensOut {
  T* data;
  int64_t batch_stride, token_stride;
};

// Every second pass over the same tokens begins at the end: what the one before read last is still
// in the cache.
enum class Order { kAscending, kDescending };

// Where a thread stands.
struct Place {
  __device__ explicit Place(const Cut& cut, Order order = Order::kAscending)
      : block(order == Order::kAscending ? blockIdx.x : gridDim.x - 1 - blockIdx.x),
        sample(block / cut.splits),
        split(static_cast<int>(block % cut.splits)),
        lane(static_cast<int>(threadIdx.x) % cut.lanes),
        row(static_cast<int>(threadIdx.x) / cut.lanes),
        head(lane / cut.head_lanes),
        begin(split * cut.split_tokens),
        end(begin + cut.split_tokens < cut.tokens ? begin + cut.split_tokens : cut.tokens) {
    const int64_t own = cut.lengths == nullptr ? cut.tokens : cut.lengths[sample];
    own_end = own < 0 ? 0 : own < end ? own : end;
  }

  unsigned block;  // of the pass, sample by sample
  int64_t sample;
  int split, lane, row, head;
  int64_t begin, end;  // tokens of this block
  int64_t own_end;     // those of the sample's own end here; below `begin` where it has none
};

// Tokens of the tile that begins at `start`.
__device__ __forceinline__ int tile_count(const Cut& cut, const Place& at, int64_t start) {
  const int64_t left = at.own_end - start;
  return left < cut.tile() ? static_cast<int>(left) : cut.tile();
}

// The packs of the thread's tokens first + i rows, zeros from `end` on.
template <class T, int V, int K>
__device__ __forceinline__ void load_tile(const TokensIn<T>& tokens, const Cut& cut,
                                          const Place& at, int64_t first, int64_t end,
                                          Pack<T, V> (&tile)[K]) {
  const T* base = tokens.data + at.sample * tokens.batch_stride + at.lane * V;
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const int64_t token = first + i * cut.rows;
    if (token < end) {
      tile[i] = load_pack<T, V>(base + token * tokens.token_stride);
    } else {
      TOST_UNROLL
      for (int v = 0; v < V; ++v) store(&tile[i].values[v], 0.0f);
    }
  }
}

// The numbers of one head at the same tokens. Read before anything is written: the compiler cannot
// know that results lie elsewhere, and would wait for each in its turn.
__device__ __forceinline__ void load_shares(const Cut& cut, const float* shares, int64_t first,
                                            int64_t end, float (&tile)[kTileTokens]) {
  TOST_UNROLL
  for (int i = 0; i < kTileTokens; ++i) {
    const int64_t token = first + i * cut.rows;
    tile[i] = token < end ? shares[token] : 0.0f;
  }
}

// sums[c] = what the rows of threads have for channel c, added in the order of the rows; the first
// row writes it. `scratch` holds rows x C floats, and is free again afterwards.
template <int V>
__device__ __forceinline__ void reduce_rows(const Cut& cut, const Place& at, const float (&own)[V],
                                            float* scratch, float* sums) {
  const int64_t channels = cut.channels();
  __syncthreads();
  TOST_UNROLL
  for (int v = 0; v < V; ++v) scratch[at.row * channels + at.lane * V + v] = own[v];
  __syncthreads();
  if (at.row == 0) {
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      float sum = own[v];
      for (int r = 1; r < cut.rows; ++r) sum += scratch[r * channels + at.lane * V + v];
      sums[at.lane * V + v] = sum;
    }
  }
  __syncthreads();
}

__device__ __forceinline__ float inverse_norm(float energy) {
  const float norm = sqrtf(energy);
  return 1.0f / (norm < 1e-12f ? 1e-12f : norm);  // NaN passes
}

// sum over the lanes of a head of parts[token, lane], parts [tile, lanes]. Neighbouring heads,
// which neighbouring threads sum, begin at different lanes: their reads fall on different banks.
__device__ __forceinline__ float head_sum(const Cut& cut, const float* parts, int token, int head) {
  const float* lanes = parts + token * cut.lanes + head * cut.head_lanes;
  int next = head % cut.head_lanes;
  float sum = 0;
  for (int i = 0; i < cut.head_lanes; ++i) {
    sum += lanes[next];
    next = next + 1 < cut.head_lanes ? next + 1 : 0;
  }
  return sum;
}

// values[token, head] of `count` tokens become their softmax over the heads; `scratch` has room for
// as many. Every thread looks at its token's heads itself: one thread a token would leave the
// others waiting for a long chain. Ends with a barrier.
__device__ __forceinline__ void softmax_heads(const Cut& cut, float* values, float* scratch,
                                              int count) {
  for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
    const float* row = values + k / cut.heads * cut.heads;
    float most = row[0];
    for (int j = 1; j < cut.heads; ++j) most = row[j] > most || row[j] != row[j] ? row[j] : most;
    scratch[k] = expf(values[k] - most);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < count * cut.heads; k += cut.threads()) {
    const float* row = scratch + k / cut.heads * cut.heads;
    float sum = 0;
    for (int j = 0; j < cut.heads; ++j) sum += row[j];
    values[k] = scratch[k] / sum;
  }
  __syncthreads();
}

// sums[v] += weights[token, head] (x factor)^2 over the thread's tokens among the first `count`.
template <class T, int V, int K>
__device__ __forceinline__ void weigh_squares(const Cut& cut, const Place& at,
                                              const Pack<T, V> (&tile)[K], int count,
                                              const float* weights, const float (&factor)[V],
                                              float (&sums)[V]) {
  TOST_UNROLL
  for (int i = 0; i < K; ++i) {
    const int token = i * cut.rows + at.row;
    if (token >= count) continue;
    const float weight = weights[token * cut.heads + at.head];
    TOST_UNROLL
    for (int v = 0; v < V; ++v) {
      const float x = to_float(tile[i].values[v]) * factor[v];
      sums[v] += weight * (x * x);
    }
  }
}

// The sum over the first `count` tokens of values[token, head], for head threadIdx.x.
__device__ __forceinline__ double sum_tokens(const Cut& cut, const float* values, int count) {
  double sum = 0;
  if (static_cast<int>(threadIdx.x) < cut.heads) {
    for (int t = 0; t < count; ++t) sum += values[t * cut.heads + threadIdx.x];
  }
  return sum;
}

}  // namespace tost::kernels::cuda
