// GELU and the scaled residual of mlp_grad.h.
#include "tost/kernels/mlp_grad.h"

#include "tost/kernels/row_chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/mlp_grad.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/kernels/mlp_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <bool kPartial>
HWY_INLINE Vec load_or_zero(const float* p, int64_t i, size_t n) {
  return p != nullptr ? load_part<kPartial>(p + i, n) : hn::Zero(Wide());
}

template <class T, bool kTanh>
void gelu_rows_forward(const GeluForwardArgs& args, int64_t begin, int64_t end) {
  const GeluForwardArgs a = args;
  for (int64_t r = begin; r < end; ++r) {
    const T* h = static_cast<const T*>(a.h) + r * a.width;
    T* to = static_cast<T*>(a.a) + r * a.width;
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
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
  over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
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

template <class T>
void scaled_add_rows(const ScaledAddArgs& a, int64_t begin, int64_t end) {
  const Wide d;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = a.x + r * a.width;
    const T* branch = static_cast<const T*>(a.branch) + r * a.width;
    float* y = a.y + r * a.width;
    const Vec keep = hn::Set(d, a.keep != nullptr ? a.keep[r / a.group] : 1.0f);
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      const Vec value =
          hn::Add(load_part<partial>(branch + i, n), load_or_zero<partial>(a.bias, i, n));
      const Vec factor = hn::Mul(keep, load_part<partial>(a.gamma + i, n));
      store_part<partial>(hn::MulAdd(factor, value, load_part<partial>(x + i, n)), y + i, n);
    });
  }
}

template <class T>
void kept_gradient_chunks(const KeptGradientArgs& a, int64_t begin, int64_t end) {
  const Wide d;
  const RowChunks chunks(a.rows);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* sums = a.workspace + chunk * a.width;
    std::fill(sums, sums + a.width, 0.0f);
    for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
      const float* grad = a.grad_y + r * a.width;
      T* kept = a.kept != nullptr ? static_cast<T*>(a.kept) + r * a.width : nullptr;
      const Vec keep = hn::Set(d, a.keep != nullptr ? a.keep[r / a.group] : 1.0f);
      over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
        const Vec value = hn::Mul(keep, load_part<partial>(grad + i, n));
        if (kept != nullptr) store_part<partial>(value, kept + i, n);
        store_part<partial>(hn::Add(value, load_part<partial>(sums + i, n)), sums + i, n);
      });
    }
  }
}

template <class T>
void scale_rows_range(const ScaleRowsArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* weight = a.weight + r * a.width;
    T* scaled = static_cast<T*>(a.scaled) + r * a.width;
    const Vec gamma = hn::Set(Wide(), a.gamma[r]);
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      store_part<partial>(hn::Mul(gamma, load_part<partial>(weight + i, n)), scaled + i, n);
    });
  }
}

template <class T>
void gamma_gradient_rows(const GammaGradientArgs& a, int64_t begin, int64_t end) {
  const Wide d;
  for (int64_t r = begin; r < end; ++r) {
    const float* weight = a.weight + r * a.width;
    T* product = static_cast<T*>(a.product) + r * a.width;
    const Vec gamma = hn::Set(d, a.gamma[r]);
    Vec dot = hn::Zero(d);
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      const Vec value = load_part<partial>(product + i, n);
      dot = hn::MulAdd(value, load_part<partial>(weight + i, n), dot);
      store_part<partial>(hn::Mul(gamma, value), product + i, n);
    });
    a.dots[r] = sum_lanes(d, dot);
  }
}

struct BranchRuns {
  using Gelu = void (*)(const GeluForwardArgs&, int64_t, int64_t);
  using GeluBack = void (*)(const GeluBackwardArgs&, int64_t, int64_t);
  static Gelu gelu(DType dtype, bool tanh) {
    if (dtype == DType::kBfloat16) {
      return tanh ? &gelu_rows_forward<Bf16, true> : &gelu_rows_forward<Bf16, false>;
    }
    return tanh ? &gelu_rows_forward<float, true> : &gelu_rows_forward<float, false>;
  }
  static GeluBack gelu_back(DType dtype, bool tanh) {
    if (dtype == DType::kBfloat16) {
      return tanh ? &gelu_chunks_backward<Bf16, true> : &gelu_chunks_backward<Bf16, false>;
    }
    return tanh ? &gelu_chunks_backward<float, true> : &gelu_chunks_backward<float, false>;
  }
  static auto add(DType dtype) {
    return dtype == DType::kBfloat16 ? &scaled_add_rows<Bf16> : &scaled_add_rows<float>;
  }
  static auto kept(DType dtype) {
    return dtype == DType::kBfloat16 ? &kept_gradient_chunks<Bf16> : &kept_gradient_chunks<float>;
  }
  static auto scale(DType dtype) {
    return dtype == DType::kBfloat16 ? &scale_rows_range<Bf16> : &scale_rows_range<float>;
  }
  static auto gamma(DType dtype) {
    return dtype == DType::kBfloat16 ? &gamma_gradient_rows<Bf16> : &gamma_gradient_rows<float>;
  }
};

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {
namespace {

// Where `sums` are wanted they are added up over the chunks.
template <class Run, class Args>
void over_chunks_and_sum(Run run, const Args& args, float* sums, ParallelFor parallel) {
  const int64_t count = over_chunks(run, args, args.rows, parallel);
  if (sums != nullptr) add_chunks(args.workspace, count, args.width, args.width, sums);
}

}  // namespace

void gelu_forward(const GeluForwardArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(BranchRuns::gelu(args.dtype, args.tanh)), args, args.rows, parallel);
}

void gelu_backward(const GeluBackwardArgs& args, ParallelFor parallel) {
  over_chunks_and_sum(TOST_OF_TARGET(BranchRuns::gelu_back(args.dtype, args.tanh)), args,
                      args.grad_bias, parallel);
}

void scaled_add(const ScaledAddArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(BranchRuns::add(args.dtype)), args, args.rows, parallel);
}

void kept_gradient(const KeptGradientArgs& args, ParallelFor parallel) {
  over_chunks_and_sum(TOST_OF_TARGET(BranchRuns::kept(args.dtype)), args, args.sums, parallel);
}

void scale_rows(const ScaleRowsArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(BranchRuns::scale(args.dtype)), args, args.rows, parallel);
}

void gamma_gradient(const GammaGradientArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(BranchRuns::gamma(args.dtype)), args, args.rows, parallel);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
