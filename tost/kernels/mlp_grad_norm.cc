// LayerNorm of mlp_grad.h. A row stays in the first cache for all that is done with it.
#include "tost/kernels/mlp_grad.h"
#include "tost/kernels/row_chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/mlp_grad_norm.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/mlp_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

HWY_INLINE float mean_of(const float* x, int64_t width) {
  Vec total = hn::Zero(Wide());
  over_row(width, [&](auto partial, int64_t i, size_t n)
                      HWY_ATTR { total = hn::Add(total, load_part<partial>(x + i, n)); });
  return sum_lanes(Wide(), total) / static_cast<float>(width);
}

HWY_INLINE float variance_of(const float* x, int64_t width, float mean) {
  const Vec center = hn::Set(Wide(), mean);
  Vec total = hn::Zero(Wide());
  over_row(width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
    const Vec off = only_first<partial>(hn::Sub(load_part<partial>(x + i, n), center), n);
    total = hn::MulAdd(off, off, total);
  });
  return sum_lanes(Wide(), total) / static_cast<float>(width);
}

template <class T>
void norm_rows_forward(const NormForwardArgs& a, int64_t begin, int64_t end) {
  const Wide d;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = a.x + r * a.width;
    T* y = static_cast<T*>(a.y) + r * a.width;
    const float mean = mean_of(x, a.width);
    const float rstd = 1 / std::sqrt(variance_of(x, a.width, mean) + a.eps);
    const Vec center = hn::Set(d, mean), scale = hn::Set(d, rstd);
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
      const Vec shift = a.bias != nullptr ? load_part<partial>(a.bias + i, n) : hn::Zero(d);
      store_part<partial>(hn::MulAdd(hat, load_part<partial>(a.weight + i, n), shift), y + i, n);
    });
    if (a.mean != nullptr) a.mean[r] = mean;
    if (a.rstd != nullptr) a.rstd[r] = rstd;
  }
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
  over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
    const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
    const Vec g = load_part<partial>(grad_y + i, n);
    store_part<partial>(hn::MulAdd(g, hat, load_part<partial>(weight_sums + i, n)), weight_sums + i,
                        n);
    store_part<partial>(hn::Add(g, load_part<partial>(bias_sums + i, n)), bias_sums + i, n);
    const Vec own = hn::Mul(g, load_part<partial>(a.weight + i, n));
    sum = hn::Add(sum, own);
    dot = hn::MulAdd(own, hat, dot);
  });
  const float share = 1 / static_cast<float>(a.width);
  const Vec mean_grad = hn::Set(d, sum_lanes(d, sum) * share);
  const Vec mean_dot = hn::Set(d, sum_lanes(d, dot) * share);
  float* grad_x = a.grad_x + r * a.width;
  over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
    const Vec hat = hn::Mul(hn::Sub(load_part<partial>(x + i, n), center), scale);
    const Vec own = hn::Mul(load_part<partial>(grad_y + i, n), load_part<partial>(a.weight + i, n));
    Vec through = hn::NegMulAdd(hat, mean_dot, hn::Sub(own, mean_grad));
    const Vec residual = a.grad_residual != nullptr
                             ? load_part<partial>(a.grad_residual + r * a.width + i, n)
                             : hn::Zero(d);
    store_part<partial>(hn::MulAdd(through, scale, residual), grad_x + i, n);
  });
}

template <class T>
void norm_chunks_backward(const NormBackwardArgs& a, int64_t begin, int64_t end) {
  const RowChunks chunks(a.rows);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* weight_sums = a.workspace + chunk * 2 * a.width;
    float* bias_sums = weight_sums + a.width;
    std::fill(weight_sums, bias_sums + a.width, 0.0f);
    for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
      norm_row_backward<T>(a, r, weight_sums, bias_sums);
    }
  }
}

struct NormRuns {
  static auto forward(DType dtype) {
    return dtype == DType::kBfloat16 ? &norm_rows_forward<Bf16> : &norm_rows_forward<float>;
  }
  static auto backward(DType dtype) {
    return dtype == DType::kBfloat16 ? &norm_chunks_backward<Bf16> : &norm_chunks_backward<float>;
  }
};

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {
int64_t column_sums_workspace(int64_t rows, int64_t width) {
  return RowChunks(rows).count() * width;
}

void norm_forward(const NormForwardArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(NormRuns::forward(args.dtype)), args, args.rows, parallel);
}

void norm_backward(const NormBackwardArgs& args, ParallelFor parallel) {
  const int64_t chunks =
      over_chunks(TOST_OF_TARGET(NormRuns::backward(args.dtype)), args, args.rows, parallel);
  const int64_t stride = 2 * args.width;
  add_chunks(args.workspace, chunks, stride, args.width, args.grad_weight);
  if (args.grad_bias == nullptr) return;
  add_chunks(args.workspace + args.width, chunks, stride, args.width, args.grad_bias);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
