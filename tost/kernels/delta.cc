// The gated delta rule on a CPU: forward, backward, single tokens, schedule.
//
// Why blocks. One token at a time, each token would read and write the state. A block of 16 tokens
// reads the state twice and writes it once: with S the state before the block, D_ij the decay from
// token j to token i and d_i the decay from the block's start,
//   e_i = v_i - d_i Sᵀk_i - sum_(j<i) D_ij (k_i k_j) u_j,  u_i = beta_i e_i
//   o_i = d_i Sᵀq_i + sum_(j<=i) D_ij (q_i k_j) u_j
//   S'  = d S + sum_j D_(last)j k_j u_jᵀ
// Forward substitution computes the vectors u. Longer blocks would need more work, because products
// between tokens grow with the square of the block's length.
//
// D is a product of decays, not a quotient of products, so it is exact for any decay, even 0.
//
// Backward restores the states of a chunk of 4 blocks from the stored state, then processes the
// blocks from the last to the first. With dS' the gradient of the state after a block and g = do:
//   x_j = D_(last)j dS'ᵀk_j + sum_(i>=j) D_ij (q_i k_j) g_i - sum_(i>j) D_ij (k_i k_j) y_i
//   y_j = beta_j x_j = dv_j,  dbeta_j = x_j e_j
//   M_ij = D_ij g_i u_j (j <= i),  N_ij = -D_ij y_i u_j (j < i)
//   dq_i = d_i S g_i + sum_j M_ij k_j
//   dk_j = D_(last)j dS' u_j - d_j S y_j + sum_i (M_ij q_i + N_ij k_i + N_ji k_i)
//   dS   = d dS' + sum_i d_i (q_i g_iᵀ - k_i y_iᵀ)
// The gradient of the sum of log decays up to token i is q_i dq_i - k_i dk_i + 2 y_i (e_i - v_i);
// the last token adds the sum of S' dS'.
//
// Any number of threads gives the same bits, because one thread computes a head of a sample.
#include "tost/kernels/delta.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/delta.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <type_traits>

#include "tost/base/checked.h"
#include "tost/kernels/rows-inl.h"

#ifndef TOST_KERNELS_DELTA_CC_
#define TOST_KERNELS_DELTA_CC_
namespace tost::kernels {

constexpr int64_t kDeltaBlock = 16;
constexpr int64_t kDeltaBlocks = 4;  // of a chunk
constexpr int64_t kDeltaChunk = kDeltaBlocks * kDeltaBlock;
constexpr int64_t kDeltaSteps = 3;  // calls of so few tokens go token by token

enum class DeltaPass : uint8_t { kForward, kSteps, kBackward };

// K and V are padded with zeros to whole blocks in the workspace.
inline int64_t whole_blocks(int64_t n) {
  return divide_up(n, kDeltaBlock) * kDeltaBlock;
}
inline int64_t state_size(const DeltaArgs& a) {
  return whole_blocks(a.keys) * whole_blocks(a.values);
}
// Heads that take turns, because their rows lie side by side in memory: states of 256 KiB.
inline int64_t heads_at_once(const DeltaArgs& a) {
  return std::max<int64_t>(1, std::min(a.heads, (64 << 10) / std::max<int64_t>(1, state_size(a))));
}
inline int64_t carry_of_head(const DeltaArgs& a) {
  return divide_up(a.tokens, kDeltaChunk) * state_size(a);
}

// Head `head` of all samples, among those that take turns; a round is a block, or backward a chunk.
struct DeltaPart {
  int64_t first, last, head, round;
};

// Rows [tokens, K], [tokens, V] and [tokens, tokens] of a block, or their gradients.
struct DeltaRows {
  DeltaRows(Arena& arena, const DeltaArgs& a) {
    const auto take = [&](std::initializer_list<float**> all, int64_t n) {
      for (float** x : all) *x = arena.take<float>(kDeltaBlock * n);
    };
    take({&q, &k, &late, &turned_k}, whole_blocks(a.keys));
    take({&v, &u, &e, &o}, whole_blocks(a.values));
    take({&seen, &overlap, &decays}, kDeltaBlock);
    take({&beta, &decay}, 1);
  }

  float *q, *k, *late, *turned_k;  // q is scaled; late: k decayed to the block's end; turned_k: kᵀ
  float *v, *u, *e, *o;            // one product takes v and u, as it takes q and k
  float *seen, *overlap, *decays;  // D (q k) for j <= i, D (k k); D
  float *beta, *decay;             // decay: d
};

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int64_t kBlock = kDeltaBlock;

// A matrix whose element (i, t) is data[i * row + t * step].
struct Left {
  const float* data;
  int64_t row, step;
};

// c [rows, n] = a b + keep before, with a [rows, depth], b [depth, n]; before is c unless given.
// Rows and n are whole blocks.
HWY_NOINLINE void product(int64_t rows, int64_t n, int64_t depth, const Left& a, const float* b,
                          float* c, float keep = 0, const float* before = nullptr) {
  if (before == nullptr) before = c;
  const Wide d;
  const int64_t size = static_cast<int64_t>(hn::Lanes(d));
  over_tiles(n, [&](auto vectors, auto, int64_t column, int64_t) TOST_INLINE {
    constexpr int64_t kVectors = decltype(vectors)::value;
    int64_t i = 0;
    const auto tile = [&](auto count) TOST_INLINE {
      constexpr int64_t kCount = decltype(count)::value;
      const int64_t at = i * n + column;
      WideVec sum[kCount][kVectors], row[kVectors];
      for (int64_t r = 0; r < kCount; ++r) {
        for (int64_t v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::Zero(d);
          if (keep == 0.0f) continue;
          sum[r][v] = hn::Mul(hn::Set(d, keep), hn::LoadU(d, before + at + r * n + v * size));
        }
      }
      const float *left = a.data + i * a.row, *right = b + column;
      for (int64_t t = 0; t < depth; ++t, left += a.step, right += n) {
        for (int64_t v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, right + v * size);
        for (int64_t r = 0; r < kCount; ++r) {
          const auto x = hn::Set(d, left[r * a.row]);
          for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, row[v], sum[r][v]);
        }
      }
      for (int64_t r = 0; r < kCount; ++r) {
        for (int64_t v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, c + at + r * n + v * size);
      }
      i += kCount;
    };
    // At least 8 sums hide their latency; at two vectors, 12 of 16 registers are sums.
    while (i < rows && kVectors == 1) tile(std::integral_constant<int64_t, 8>());
    while (i < rows) {
      tile(std::integral_constant<int64_t, 6>());
      for (int n = 0; n < 2; ++n) tile(std::integral_constant<int64_t, 5>());
    }
  });
}

// to [n, m] = from [m, n]ᵀ, both whole blocks. A compiler makes vectors of columns of 16.
HWY_NOINLINE void turn(int64_t m, int64_t n, const float* HWY_RESTRICT from,
                       float* HWY_RESTRICT to) {
  for (int64_t i = 0; i < m; i += 4) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t r = 0; r < 4; ++r) to[j * m + i + r] = from[(i + r) * n + j];
    }
  }
}

// Row i of `to`, which may be `from`, is sign by[i] times that of `from`.
HWY_NOINLINE void scale_rows(int64_t n, const float* by, const float* from, float* to,
                             float sign = 1) {
  for (int64_t i = 0; i < kBlock; ++i) {
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = sign * by[i] * from[i * n + j];
  }
}

HWY_NOINLINE float dot(int64_t n, const float* a, const float* b) {
  const Wide d;
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  return sum_lanes(d, sum);
}

// The computation of one head of one sample.
template <class T>
class DeltaHead {
 public:
  DeltaHead(const DeltaArgs& args, const DeltaPart& part, void* workspace)
      : a(args), part(part), arena(workspace) {}

  void forward() {
    const DeltaRows b(arena, a);
    float* state = own_state();
    const int64_t t = part.round * kBlock, count = std::min(kBlock, a.tokens - t);
    if (t == 0) widen_state(a.state, state);
    if (a.carry != nullptr && count > 0 && t % kDeltaChunk == 0) {
      std::copy_n(state, state_size(a), carry(t / kDeltaChunk));
    }
    open<true>(t, count, state, b);
    store_rows(b.o, count, a.values, values, 1.0f, a.o, t);
    advance(b, state, state);
    if (t + kBlock >= a.tokens) narrow_state(state, a.next_state);
  }

  // Processes tokens one by one, in the caller's state. With `next_state`, without `carry`.
  void steps() {
    const DeltaRows b(arena, a);
    const int64_t numbers = a.keys * a.values;
    float* state = a.next_state + index * numbers;
    if (a.state == nullptr) std::fill_n(state, numbers, 0.0f);
    if (a.state != nullptr && a.state != a.next_state) {
      std::copy_n(a.state + index * numbers, numbers, state);
    }
    for (int64_t t = 0; t < a.tokens; ++t) {
      load_rows(a.q, t, 1, a.keys, keys, a.scale, b.q);
      load_rows(a.k, t, 1, a.keys, keys, 1.0f, b.k);
      load_rows(a.v, t, 1, a.values, values, 1.0f, b.v);
      const float decay = decay_of(t), beta = *row<const float>(a.beta, t);
      float *HWY_RESTRICT u = b.u, *HWY_RESTRICT o = b.o;
      for (float* x : {b.u, b.o}) std::fill_n(x, values, 0.0f);
      for (int64_t i = 0; i < a.keys; ++i) {
        const float* HWY_RESTRICT s = state + i * a.values;
        for (int64_t j = 0; j < a.values; ++j) u[j] += b.k[i] * s[j];
      }
      for (int64_t j = 0; j < a.values; ++j) u[j] = beta * (b.v[j] - decay * u[j]);
      for (int64_t i = 0; i < a.keys; ++i) {
        float* HWY_RESTRICT s = state + i * a.values;
        const float k = b.k[i], q = b.q[i];
        for (int64_t j = 0; j < a.values; ++j) o[j] += q * (s[j] = decay * s[j] + k * u[j]);
      }
      store_rows(b.o, 1, a.values, values, 1.0f, a.o, t);
    }
  }

  void backward() {
    const DeltaRows s(arena, a), blocks[] = {{arena, a}, {arena, a}, {arena, a}, {arena, a}};
    static_assert(std::size(blocks) == kDeltaBlocks);
    float* states = arena.take<float>(kDeltaBlocks * state_size(a));  // after each block
    float* grad_state = own_state();
    if (part.round == 0) widen_state(a.grad_next_state, grad_state);
    const int64_t chunk = divide_up(a.tokens, kDeltaChunk) - 1 - part.round;
    const int64_t first = chunk * kDeltaChunk, left = a.tokens - first;
    const auto count = [&](int64_t i) { return std::min(kBlock, left - i * kBlock); };
    const auto before = [&](int64_t i) {
      return i == 0 ? carry(chunk) : states + (i - 1) * state_size(a);
    };
    int64_t i = 0;
    for (; i < kDeltaBlocks && chunk >= 0 && count(i) > 0; ++i) {
      open<false>(first + i * kBlock, count(i), before(i), blocks[i]);
      advance(blocks[i], before(i), before(i + 1));
    }
    while (--i >= 0) {
      gradients(first + i * kBlock, count(i), before(i), before(i + 1), blocks[i], s, grad_state);
    }
    if (chunk <= 0) narrow_state(grad_state, a.grad_state);
  }

 private:
  template <class Number, class Pointer>
  HWY_INLINE Number* row(const HeadsOf<Pointer>& x, int64_t t) const {
    return static_cast<Number*>(x.data) + index / a.heads * x.sample_stride + t * x.token_stride +
           index % a.heads * x.head_stride;
  }
  float* own_state() {
    return arena.take<float>(heads_at_once(a) * state_size(a)) +
           (index - part.first) * state_size(a);
  }
  // The distance to what is needed next: rows of the next head, or later ones of the first head.
  template <class Pointer>
  int64_t to_next(const HeadsOf<Pointer>& x) const {
    if (index + 1 < part.last) return x.head_stride;
    const int64_t tokens = a.grad_o.data != nullptr ? -kDeltaChunk : kBlock;
    return (part.first - index) * x.head_stride + tokens * x.token_stride;
  }
  float* carry(int64_t chunk) const {
    return a.carry + index * carry_of_head(a) + chunk * state_size(a);
  }
  float decay_of(int64_t t) const {
    return a.log_decay.data == nullptr ? 1.0f : std::exp(*row<const float>(a.log_decay, t));
  }

  // Rows of n numbers, `wide` in the workspace.
  HWY_NOINLINE void load_rows(const ConstHeads& x, int64_t first, int64_t count, int64_t n,
                              int64_t wide, float scale, float* to) const {
    const Wide d;
    const int64_t next = to_next(x);
    std::fill_n(to + (n < wide ? 0 : count * wide), (n < wide ? kBlock : kBlock - count) * wide, 0);
    for (int64_t t = 0; t < count; ++t) {
      const T* p = row<const T>(x, first + t);
      over_row(n, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
        hn::Store(hn::Mul(hn::Set(d, scale), load_part<partial>(p + i, lanes)), d,
                  to + t * wide + i);
        __builtin_prefetch(p + i + next, /*write=*/0, /*locality=*/2);
      });
    }
  }
  HWY_NOINLINE void store_rows(const float* from, int64_t count, int64_t n, int64_t wide,
                               float scale, const Heads& x, int64_t first) const {
    const Wide d;
    const int64_t next = to_next(x);
    for (int64_t t = 0; t < count; ++t) {
      T* p = row<T>(x, first + t);
      over_row(n, [&](auto partial, int64_t i, int64_t lanes) TOST_INLINE {
        store_part<partial>(hn::Mul(hn::Set(d, scale), hn::Load(d, from + t * wide + i)), p + i,
                            lanes);
        __builtin_prefetch(p + i + next, /*write=*/1, /*locality=*/2);
      });
    }
  }

  // Copies between the caller's states and those of the workspace. Null means zeros, or no result.
  void widen_state(const float* from, float* to) const {
    std::fill_n(to, state_size(a), 0.0f);
    for (int64_t i = 0; i < a.keys && from != nullptr; ++i) {
      std::copy_n(from + (index * a.keys + i) * a.values, a.values, to + i * values);
    }
  }
  void narrow_state(const float* from, float* to) const {
    for (int64_t i = 0; i < a.keys && to != nullptr; ++i) {
      std::copy_n(from + i * values, a.values, to + (index * a.keys + i) * a.values);
    }
  }

  // Computes `count` tokens from the state before them, o only with kOut. Padding has no effect.
  template <bool kOut>
  HWY_NOINLINE void open(int64_t first, int64_t count, const float* state,
                         const DeltaRows& b) const {
    load_rows(a.q, first, count, a.keys, keys, a.scale, b.q);
    load_rows(a.k, first, count, a.keys, keys, 1.0f, b.k);
    load_rows(a.v, first, count, a.values, values, 1.0f, b.v);
    for (int64_t i = 0; i < kBlock; ++i) {
      const float decay = i < count ? decay_of(first + i) : 1.0f;
      b.beta[i] = i < count ? *row<const float>(a.beta, first + i) : 0.0f;
      b.decay[i] = i == 0 ? decay : decay * b.decay[i - 1];
      float* d = b.decays + i * kBlock;
      for (int64_t j = 0; j < kBlock; ++j) d[j] = j < i ? decay * d[j - kBlock] : j == i;
    }
    turn(kBlock, keys, b.k, b.turned_k);
    product(2 * kBlock, kBlock, keys, {b.q, keys, 1}, b.turned_k, b.seen);
    for (float* x : {b.overlap, b.seen}) {
      for (int64_t i = 0; i < kBlock * kBlock; ++i) x[i] *= b.decays[i];
    }
    scale_rows(keys, b.decay, b.k, b.late, -1);
    product(kBlock, values, keys, {b.late, keys, 1}, state, b.e, 1, b.v);
    scale_rows(keys, b.decays + (kBlock - 1) * kBlock, b.k, b.late);
    if constexpr (kOut) product(kBlock, values, keys, {b.q, keys, 1}, state, b.o);
    if constexpr (kOut) scale_rows(values, b.decay, b.o, b.o);
    solve<kOut>(b, false, b.e, b.u);
  }

  // Computes for tokens i in order, or in reverse: e_i -= sum_j overlap(i, j) u_j over earlier j,
  // u_i = beta_i e_i, and with kOut o_i += sum_j seen(i, j) u_j over j up to i.
  template <bool kOut>
  HWY_NOINLINE void solve(const DeltaRows& b, bool from_last, float* e, float* u) const {
    const Wide d;
    const int64_t size = static_cast<int64_t>(hn::Lanes(d));
    const int64_t first = from_last ? kBlock - 1 : 0, next = from_last ? -1 : 1;
    const int64_t row = from_last ? 1 : kBlock, step = from_last ? kBlock : 1;
    over_tiles(values, [&](auto vectors, auto, int64_t c, int64_t) TOST_INLINE {
      for (int64_t i = first; i >= 0 && i < kBlock; i += next) {
        const float *overlap = b.overlap + i * row, *seen = b.seen + i * row;
        WideVec sum[vectors], out[vectors];
        for (int64_t v = 0; v < vectors; ++v) {
          sum[v] = hn::Load(d, e + i * values + c + v * size);
          if constexpr (kOut) out[v] = hn::Load(d, b.o + i * values + c + v * size);
        }
        for (int64_t j = first; j != i; j += next) {
          for (int64_t v = 0; v < vectors; ++v) {
            const auto x = hn::Load(d, u + j * values + c + v * size);
            sum[v] = hn::NegMulAdd(hn::Set(d, overlap[j * step]), x, sum[v]);
            if constexpr (kOut) out[v] = hn::MulAdd(hn::Set(d, seen[j * step]), x, out[v]);
          }
        }
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t at = i * values + c + v * size;
          const auto x = hn::Mul(hn::Set(d, b.beta[i]), sum[v]);
          hn::Store(sum[v], d, e + at);
          hn::Store(x, d, u + at);
          if constexpr (kOut) hn::Store(hn::MulAdd(hn::Set(d, seen[i]), x, out[v]), d, b.o + at);
        }
      }
    });
  }

  // Computes the state after the block from the state before it.
  HWY_INLINE void advance(const DeltaRows& b, const float* before, float* after) const {
    product(keys, values, kBlock, {b.late, 1, keys}, b.u, after, b.decay[kBlock - 1], before);
  }

  // Computes the gradients of a block's tokens and, in grad_state, of the state before the block.
  HWY_INLINE void gradients(int64_t first, int64_t count, const float* before, const float* after,
                            const DeltaRows& b, const DeltaRows& s, float* grad) const {
    // turned_y and turned_u reuse the memory of o and v, which are no longer needed.
    float *g = s.v, *x = s.e, *y = s.u, *turned_g = s.o, *turned_y = b.o, *turned_u = b.v;
    float *m = s.seen, *n = s.overlap, *turned_m = s.decays, *turned_q = s.late;
    load_rows(a.grad_o, first, count, a.values, values, 1.0f, g);
    product(kBlock, values, kBlock, {b.seen, 1, kBlock}, g, x);
    product(kBlock, values, keys, {b.late, keys, 1}, grad, x, 1);
    solve<false>(b, true, x, y);
    store_rows(y, count, a.values, values, 1.0f, a.grad_v, first);
    float of_decay[kBlock];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = i * values;
      *row<float>(a.grad_beta, first + i) = dot(values, x + at, b.e + at);
      of_decay[i] = 2 * (dot(values, y + at, b.e + at) - dot(values, y + at, b.v + at));
    }

    turn(kBlock, values, b.u, turned_u);
    product(2 * kBlock, kBlock, values, {g, values, 1}, turned_u, m);
    for (int64_t i = 0; i < kBlock * kBlock; ++i) m[i] *= b.decays[i];
    for (int64_t i = 0; i < kBlock; ++i) {  // n becomes the sum of N and its transpose
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t at = i * kBlock + j;
        n[j * kBlock + i] = n[at] = j < i ? -b.decays[at] * n[at] : 0.0f;
      }
    }
    turn(kBlock, kBlock, m, turned_m);
    // Scales g, y and u to d_i g_i, -d_i y_i and D_(last)j u_j.
    scale_rows(values, b.decay, g, g);
    scale_rows(values, b.decay, y, y, -1);
    scale_rows(values, b.decays + (kBlock - 1) * kBlock, b.u, b.u);
    turn(kBlock, values, g, turned_g);
    turn(kBlock, values, y, turned_y);
    turn(kBlock, values, b.u, turned_u);

    product(keys, kBlock, values, {before, values, 1}, turned_g, turned_q);
    product(keys, kBlock, kBlock, {b.k, 1, keys}, turned_m, turned_q, 1);
    product(keys, kBlock, values, {grad, values, 1}, turned_u, s.turned_k);
    product(keys, kBlock, values, {before, values, 1}, turned_y, s.turned_k, 1);
    product(keys, kBlock, 2 * kBlock, {b.q, 1, keys}, m, s.turned_k, 1);
    turn(keys, kBlock, turned_q, s.q);
    turn(keys, kBlock, s.turned_k, s.k);
    store_rows(s.q, count, a.keys, keys, a.scale, a.grad_q, first);
    store_rows(s.k, count, a.keys, keys, 1.0f, a.grad_k, first);
    if (a.grad_log_decay.data != nullptr) {
      float total = dot(state_size(a), after, grad);
      for (int64_t i = count - 1; i >= 0; --i) {
        const int64_t at = i * keys;
        total += dot(keys, b.q + at, s.q + at) - dot(keys, b.k + at, s.k + at) + of_decay[i];
        *row<float>(a.grad_log_decay, first + i) = total;
      }
    }
    product(keys, values, 2 * kBlock, {b.q, 1, keys}, g, grad, b.decay[kBlock - 1]);
  }

  const DeltaArgs& a;
  const DeltaPart part;
  const int64_t index = part.head;
  const int64_t keys = whole_blocks(a.keys), values = whole_blocks(a.values);
  Arena arena;
};

template <class T>
void run_delta_head(DeltaPass pass, const DeltaArgs& args, const DeltaPart& part, void* workspace) {
  DeltaHead<T> head(args, part, workspace);
  if (pass == DeltaPass::kForward) head.forward();
  if (pass == DeltaPass::kSteps) head.steps();
  if (pass == DeltaPass::kBackward) head.backward();
}
inline auto delta_head(DType dtype) {
  return dtype == DType::kBfloat16 ? run_delta_head<Bf16> : run_delta_head<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// ---- Schedule ----

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(delta_head);

int64_t workers_of(const DeltaArgs& a, int threads) {
  const int64_t heads = a.samples * a.heads, work = heads * a.tokens * a.keys * a.values;
  return work <= 128 << 10 ? 1 : std::min<int64_t>(heads, threads);  // little work wakes no thread
}

int64_t bytes_of_worker(const DeltaArgs& a, bool backward) {
  Arena arena(nullptr);
  for (int64_t i = 0; i < (backward ? kDeltaBlocks + 1 : 1); ++i) DeltaRows(arena, a);
  arena.take<float>(((backward ? kDeltaBlocks : 0) + heads_at_once(a)) * state_size(a));
  return arena.used();
}

void run_heads(DeltaPass pass, const DeltaArgs& a, void* workspace, ParallelFor parallel,
               int threads) {
  const WorkTimer timer(Work::kMixing);
  const auto one = TOST_DISPATCH(delta_head)(a.dtype);
  const int64_t heads = a.samples * a.heads, workers = workers_of(a, threads);
  const int64_t bytes = bytes_of_worker(a, pass == DeltaPass::kBackward);
  const int64_t tokens = pass == DeltaPass::kForward ? kDeltaBlock : kDeltaChunk;
  const int64_t rounds = std::max<int64_t>(1, divide_up(a.tokens, tokens));
  const auto work = [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; ++worker) {
      const int64_t end = (worker + 1) * heads / workers;
      for (DeltaPart part{worker * heads / workers}; part.first < end; part.first = part.last) {
        part.last =
            std::min({end, part.first + heads_at_once(a), (part.first / a.heads + 1) * a.heads});
        for (part.round = 0; part.round < rounds; ++part.round) {
          for (part.head = part.first; part.head < part.last; ++part.head) {
            one(pass, a, part, static_cast<char*>(workspace) + worker * bytes);
          }
        }
      }
    }
  };
  workers == 1 ? work(0, 1) : parallel(workers, work);
}

}  // namespace

int64_t delta_carry_size(const DeltaArgs& args) {
  return args.samples * args.heads * carry_of_head(args);
}
int64_t delta_workspace(const DeltaArgs& args, bool backward, int threads) {
  return workers_of(args, threads) * bytes_of_worker(args, backward);
}

void delta_forward(const DeltaArgs& args, void* workspace, ParallelFor parallel, int threads) {
  const bool steps = args.next_state != nullptr && args.carry == nullptr && args.tokens > 0 &&
                     args.tokens <= kDeltaSteps;
  run_heads(steps ? DeltaPass::kSteps : DeltaPass::kForward, args, workspace, parallel, threads);
}
void delta_backward(const DeltaArgs& args, void* workspace, ParallelFor parallel, int threads) {
  run_heads(DeltaPass::kBackward, args, workspace, parallel, threads);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
