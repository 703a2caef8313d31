// LayerNorm, GELU and scaled residual of a block in training.
//
// Why these passes. A row stays in the L1 cache for all that is done with it, so each array is read
// or written once from memory. GELU and LayerNorm are computed again in backward: this costs less
// than to store and read their results.
//
// What is summed in which type, and why any number of threads gives the same bits. Sums along a row
// are float32 in a vector of running sums. Sums over rows are float32 for each chunk of rows. The
// chunks depend only on the number of rows and are added in their order.
#include "tost/kernels/mlp_grad.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/mlp_grad.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/vec-inl.h"

#ifndef TOST_KERNELS_MLP_GRAD_CC_
#define TOST_KERNELS_MLP_GRAD_CC_
namespace tost::kernels {

// How rows are cut into chunks for sums over them.
struct RowChunks {
  explicit RowChunks(int64_t all_rows)
      : rows(all_rows), size(std::max<int64_t>(32, (all_rows + 255) / 256)) {}

  int64_t count() const { return (rows + size - 1) / size; }
  int64_t begin(int64_t chunk) const { return chunk * size; }
  int64_t end(int64_t chunk) const { return std::min(rows, (chunk + 1) * size); }

  int64_t rows, size;
};

// sums[i] = the sum over chunks of parts[chunk * stride + i].
inline void add_chunks(const float* parts, int64_t chunks, int64_t stride, int64_t width,
                       float* sums) {
  std::fill(sums, sums + width, 0.0f);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const float* part = parts + chunk * stride;
    for (int64_t i = 0; i < width; ++i) sums[i] += part[i];
  }
}

}  // namespace tost::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Vec = WideVec;

// run<T>() for the type of the inputs and outputs of products.
template <class Run>
HWY_INLINE void for_type(DType dtype, const Run& run) {
  dtype == DType::kBfloat16 ? run.template operator()<Bf16>() : run.template operator()<float>();
}

// ---- LayerNorm ----

HWY_INLINE float mean_of(const float* x, int64_t width) {
  Vec total = hn::Zero(Wide());
  over_row(width, [&](auto partial, int64_t i, int64_t n)
                      TOST_INLINE { total = hn::Add(total, load_part<partial>(x + i, n)); });
  return sum_lanes(Wide(), total) / static_cast<float>(width);
}

HWY_INLINE float variance_of(const float* x, int64_t width, float mean) {
  const Vec center = hn::Set(Wide(), mean);
  Vec total = hn::Zero(Wide());
  over_row(width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
    const Vec off = only_first<partial>(hn::Sub(load_part<partial>(x + i, n), center), n);
    total = hn::MulAdd(off, off, total);
  });
  return sum_lanes(Wide(), total) / static_cast<float>(width);
}

inline void norm_rows_forward(const NormForwardArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    const Wide d;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = a.x + r * a.width;
      T* y = static_cast<T*>(a.y) + r * a.width;
      const float mean = mean_of(x, a.width);
      const float rstd = 1 / std::sqrt(variance_of(x, a.width, mean) + a.eps);
      const Vec center = hn::Set(d, mean), scale = hn::Set(d, rstd);
      over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
        const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
        const Vec shift = a.bias != nullptr ? load_part<partial>(a.bias + i, n) : hn::Zero(d);
        store_part<partial>(hn::MulAdd(hat, load_part<partial>(a.weight + i, n), shift), y + i, n);
      });
      if (a.mean != nullptr) a.mean[r] = mean;
      if (a.rstd != nullptr) a.rstd[r] = rstd;
    }
  });
}

// One row; adds to the chunk's sums for weight and bias.
template <class T>
HWY_INLINE void norm_row_backward(const NormBackwardArgs& a, int64_t r, float* weight_sums,
                                  float* bias_sums) {
  const Wide d;
  const float* x = a.x + r * a.width;
  const T* grad_y = static_cast<const T*>(a.grad_y) + r * a.width;
  const Vec center = hn::Set(d, a.mean[r]), scale = hn::Set(d, a.rstd[r]);
  Vec sum = hn::Zero(d), dot = hn::Zero(d);
  over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
    const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
    const Vec g = load_part<partial>(grad_y + i, n);
    store_part<partial>(hn::MulAdd(g, hat, load_part<partial>(weight_sums + i, n)), weight_sums + i,
                        n);
    store_part<partial>(hn::Add(g, load_part<partial>(bias_sums + i, n)), bias_sums + i, n);
    const Vec weighted = hn::Mul(g, load_part<partial>(a.weight + i, n));
    sum = hn::Add(sum, weighted);
    dot = hn::MulAdd(weighted, hat, dot);
  });
  const float share = 1 / static_cast<float>(a.width);
  const Vec mean_grad = hn::Set(d, sum_lanes(d, sum) * share);
  const Vec mean_dot = hn::Set(d, sum_lanes(d, dot) * share);
  float* grad_x = a.grad_x + r * a.width;
  over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
    const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
    const Vec weighted =
        hn::Mul(load_part<partial>(grad_y + i, n), load_part<partial>(a.weight + i, n));
    Vec through = hn::NegMulAdd(hat, mean_dot, hn::Sub(weighted, mean_grad));
    const Vec residual = a.grad_residual != nullptr
                             ? load_part<partial>(a.grad_residual + r * a.width + i, n)
                             : hn::Zero(d);
    store_part<partial>(hn::MulAdd(through, scale, residual), grad_x + i, n);
  });
}

inline void norm_chunks_backward(const NormBackwardArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    const RowChunks chunks(a.rows);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* weight_sums = a.workspace + chunk * 2 * a.width;
      float* bias_sums = weight_sums + a.width;
      std::fill(weight_sums, bias_sums + a.width, 0.0f);
      for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
        norm_row_backward<T>(a, r, weight_sums, bias_sums);
      }
    }
  });
}

// ---- GELU ----

// Phi(x), and exp(-x^2 / 2), by the rational form 7.1.26 of Abramowitz and Stegun, which ATen's
// vectors use as well: within 1.5e-7.
struct Normal {
  Vec cumulative, bell;
};
HWY_INLINE Normal normal_of(Vec x) {
  const Wide d;
  const Vec size = hn::Abs(x);
  const Vec bell = exp_negative(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  // 0.3275911 |x| / sqrt(2)
  const Vec t =
      hn::Div(hn::Set(d, 1.0f), hn::MulAdd(size, hn::Set(d, 0.23164190f), hn::Set(d, 1.0f)));
  Vec p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const Vec tail = hn::Mul(hn::Mul(hn::Mul(p, t), bell), hn::Set(d, 0.5f));
  const auto below = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(below, tail, hn::Sub(hn::Set(d, 1.0f), tail)), bell};
}

struct Gelu {
  Vec value, slope;
};
template <bool kTanh>
HWY_INLINE Gelu gelu_of(Vec x) {
  const Wide d;
  if constexpr (!kTanh) {
    const Normal normal = normal_of(x);
    const Vec density = hn::Mul(normal.bell, hn::Set(d, 0.39894228f));
    return {hn::Mul(x, normal.cumulative), hn::MulAdd(x, density, normal.cumulative)};
  }
  constexpr float kRoot = 0.79788456f, kCubic = 0.044715f;
  const Vec one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const Vec square = hn::Mul(x, x);
  const Vec inner =
      hn::Mul(hn::Mul(x, hn::Set(d, kRoot)), hn::MulAdd(square, hn::Set(d, kCubic), one));
  const Vec e = exp_negative(d, hn::Mul(hn::Abs(inner), hn::Set(d, -2.0f)));
  const Vec t = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), inner);
  const Vec factor = hn::MulAdd(half, t, half);
  const Vec inner_slope = hn::MulAdd(square, hn::Set(d, 3 * kRoot * kCubic), hn::Set(d, kRoot));
  const Vec bend = hn::Mul(hn::Mul(half, x), hn::NegMulAdd(t, t, one));
  return {hn::Mul(x, factor), hn::MulAdd(bend, inner_slope, factor)};
}

template <bool kPartial>
HWY_INLINE Vec load_or_zero(const float* p, int64_t i, int64_t n) {
  return p != nullptr ? load_part<kPartial>(p + i, n) : hn::Zero(Wide());
}

template <class T, bool kTanh>
void gelu_rows_forward(const GeluForwardArgs& args, int64_t begin, int64_t end) {
  const GeluForwardArgs a = args;
  for (int64_t r = begin; r < end; ++r) {
    const T* h = static_cast<const T*>(a.h) + r * a.width;
    T* to = static_cast<T*>(a.a) + r * a.width;
    over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
      const Vec x = hn::Add(load_part<partial>(h + i, n), load_or_zero<partial>(a.bias, i, n));
      store_part<partial>(gelu_of<kTanh>(x).value, to + i, n);
    });
  }
}

template <class T, bool kTanh>
HWY_INLINE void gelu_row_backward(const GeluBackwardArgs& a, int64_t r, float* sums) {
  const T* h = static_cast<const T*>(a.h) + r * a.width;
  const T* grad_a = static_cast<const T*>(a.grad_a) + r * a.width;
  T* grad_h = static_cast<T*>(a.grad_h) + r * a.width;
  T* again = a.a != nullptr ? static_cast<T*>(a.a) + r * a.width : nullptr;
  over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
    const Vec x = hn::Add(load_part<partial>(h + i, n), load_or_zero<partial>(a.bias, i, n));
    const Gelu gelu = gelu_of<kTanh>(x);
    const Vec grad = hn::Mul(load_part<partial>(grad_a + i, n), gelu.slope);
    if (again != nullptr) store_part<partial>(gelu.value, again + i, n);
    store_part<partial>(grad, grad_h + i, n);
    if (sums != nullptr) {
      store_part<partial>(hn::Add(grad, load_part<partial>(sums + i, n)), sums + i, n);
    }
  });
}

template <class T, bool kTanh>
void gelu_chunks_backward(const GeluBackwardArgs& args, int64_t begin, int64_t end) {
  const GeluBackwardArgs a = args;
  const RowChunks chunks(a.rows);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* sums = a.grad_bias != nullptr ? a.workspace + chunk * a.width : nullptr;
    if (sums != nullptr) std::fill(sums, sums + a.width, 0.0f);
    for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
      gelu_row_backward<T, kTanh>(a, r, sums);
    }
  }
}

inline void scaled_add_rows(const ScaledAddArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    const Wide d;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = a.x + r * a.width;
      const T* branch = static_cast<const T*>(a.branch) + r * a.width;
      float* y = a.y + r * a.width;
      const Vec keep = hn::Set(d, a.keep != nullptr ? a.keep[r / a.group] : 1.0f);
      over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
        const Vec value =
            hn::Add(load_part<partial>(branch + i, n), load_or_zero<partial>(a.bias, i, n));
        const Vec factor = hn::Mul(keep, load_part<partial>(a.gamma + i, n));
        store_part<partial>(hn::MulAdd(factor, value, load_part<partial>(x + i, n)), y + i, n);
      });
    }
  });
}

inline void masked_gradient_chunks(const MaskedGradientArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    const Wide d;
    const RowChunks chunks(a.rows);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* sums = a.workspace + chunk * a.width;
      std::fill(sums, sums + a.width, 0.0f);
      for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
        const float* grad = a.grad_y + r * a.width;
        T* masked = a.masked != nullptr ? static_cast<T*>(a.masked) + r * a.width : nullptr;
        const Vec keep = hn::Set(d, a.keep != nullptr ? a.keep[r / a.group] : 1.0f);
        over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
          const Vec value = hn::Mul(keep, load_part<partial>(grad + i, n));
          if (masked != nullptr) store_part<partial>(value, masked + i, n);
          store_part<partial>(hn::Add(value, load_part<partial>(sums + i, n)), sums + i, n);
        });
      }
    }
  });
}

inline void scale_rows_range(const ScaleRowsArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    for (int64_t r = begin; r < end; ++r) {
      const float* weight = a.weight + r * a.width;
      T* scaled = static_cast<T*>(a.scaled) + r * a.width;
      const Vec gamma = hn::Set(Wide(), a.gamma[r]);
      over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
        store_part<partial>(hn::Mul(gamma, load_part<partial>(weight + i, n)), scaled + i, n);
      });
    }
  });
}

inline void gamma_gradient_rows(const GammaGradientArgs& a, int64_t begin, int64_t end) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    const Wide d;
    for (int64_t r = begin; r < end; ++r) {
      const float* weight = a.weight + r * a.width;
      T* product = static_cast<T*>(a.product) + r * a.width;
      const Vec gamma = hn::Set(d, a.gamma[r]);
      Vec dot = hn::Zero(d);
      over_row(a.width, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
        const Vec value = load_part<partial>(product + i, n);
        dot = hn::MulAdd(value, load_part<partial>(weight + i, n), dot);
        store_part<partial>(hn::Mul(gamma, value), product + i, n);
      });
      a.dots[r] = sum_lanes(d, dot);
    }
  });
}

// run<T, tanh>() for the type of the values and the form of GELU.
template <class Args, class Run>
HWY_INLINE void for_gelu(const Args& a, const Run& run) {
  for_type(a.dtype, [&]<class T>() TOST_INLINE {
    a.tanh ? run.template operator()<T, true>() : run.template operator()<T, false>();
  });
}
inline void gelu_rows(const GeluForwardArgs& a, int64_t begin, int64_t end) {
  for_gelu(a, [&]<class T, bool kTanh>() { gelu_rows_forward<T, kTanh>(a, begin, end); });
}
inline void gelu_chunks(const GeluBackwardArgs& a, int64_t begin, int64_t end) {
  for_gelu(a, [&]<class T, bool kTanh>() { gelu_chunks_backward<T, kTanh>(a, begin, end); });
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(norm_rows_forward);
HWY_EXPORT(norm_chunks_backward);
HWY_EXPORT(gelu_rows);
HWY_EXPORT(gelu_chunks);
HWY_EXPORT(scaled_add_rows);
HWY_EXPORT(masked_gradient_chunks);
HWY_EXPORT(scale_rows_range);
HWY_EXPORT(gamma_gradient_rows);

// Chunks of rows for a thread at a time: run(args, first row, row after the last).
template <class Run, class Args>
void over_rows(Run run, const Args& args, ParallelFor parallel) {
  const RowChunks chunks(args.rows);
  parallel(chunks.count(), [&](int64_t begin, int64_t end) {
    run(args, chunks.begin(begin), chunks.end(end - 1));
  });
}

// run(args, first chunk, chunk after the last), which leaves a chunk's sums in the workspace,
// `columns` of them. Adds up those of the first `width` columns, and of as many after them.
template <class Run, class Args>
void over_chunks(Run run, const Args& args, int64_t columns, float* sums, float* next_sums,
                 ParallelFor parallel) {
  const int64_t count = RowChunks(args.rows).count();
  parallel(count, [&](int64_t begin, int64_t end) { run(args, begin, end); });
  if (sums != nullptr) add_chunks(args.workspace, count, columns, args.width, sums);
  if (next_sums != nullptr) {
    add_chunks(args.workspace + args.width, count, columns, args.width, next_sums);
  }
}

}  // namespace

int64_t column_sums_workspace(int64_t rows, int64_t width) {
  return RowChunks(rows).count() * width;
}

void norm_forward(const NormForwardArgs& args, ParallelFor parallel) {
  over_rows(TOST_DISPATCH(norm_rows_forward), args, parallel);
}
void norm_backward(const NormBackwardArgs& args, ParallelFor parallel) {
  over_chunks(TOST_DISPATCH(norm_chunks_backward), args, 2 * args.width, args.grad_weight,
              args.grad_bias, parallel);
}
void gelu_forward(const GeluForwardArgs& args, ParallelFor parallel) {
  over_rows(TOST_DISPATCH(gelu_rows), args, parallel);
}
void gelu_backward(const GeluBackwardArgs& args, ParallelFor parallel) {
  over_chunks(TOST_DISPATCH(gelu_chunks), args, args.width, args.grad_bias, nullptr, parallel);
}
void scaled_add(const ScaledAddArgs& args, ParallelFor parallel) {
  over_rows(TOST_DISPATCH(scaled_add_rows), args, parallel);
}
void masked_gradient(const MaskedGradientArgs& args, ParallelFor parallel) {
  over_chunks(TOST_DISPATCH(masked_gradient_chunks), args, args.width, args.sums, nullptr,
              parallel);
}
void scale_rows(const ScaleRowsArgs& args, ParallelFor parallel) {
  over_rows(TOST_DISPATCH(scale_rows_range), args, parallel);
}
void gamma_gradient(const GammaGradientArgs& args, ParallelFor parallel) {
  over_rows(TOST_DISPATCH(gamma_gradient_rows), args, parallel);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
