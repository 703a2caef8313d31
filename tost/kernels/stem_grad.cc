#include "tost/kernels/stem_grad.h"

#include "tost/kernels/row_chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/stem_grad.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

#include "tost/kernels/mlp_grad-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

// Of each chunk the means, then the squares around them.
template <class T>
void moments_of_chunks(const ColumnMomentsArgs& a, int64_t begin, int64_t end) {
  const RowChunks chunks(a.rows);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* mean = a.workspace + chunk * 2 * a.width;
    float* squares = mean + a.width;
    std::fill(mean, squares + a.width, 0.0f);
    const int64_t first = chunks.begin(chunk), last = chunks.end(chunk);
    for (int64_t r = first; r < last; ++r) {
      const T* z = static_cast<const T*>(a.z) + r * a.width;
      over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
        store_part<partial>(hn::Add(load_part<partial>(mean + i, n), load_part<partial>(z + i, n)),
                            mean + i, n);
      });
    }
    const Vec share = hn::Set(Wide(), 1.0f / static_cast<float>(last - first));
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      store_part<partial>(hn::Mul(load_part<partial>(mean + i, n), share), mean + i, n);
    });
    for (int64_t r = first; r < last; ++r) {
      const T* z = static_cast<const T*>(a.z) + r * a.width;
      over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
        const Vec off = hn::Sub(load_part<partial>(z + i, n), load_part<partial>(mean + i, n));
        store_part<partial>(hn::MulAdd(off, off, load_part<partial>(squares + i, n)), squares + i,
                            n);
      });
    }
  }
}

// The value normalised and, in `p`, scaled and shifted.
template <bool kPartial, class T>
HWY_INLINE Vec normalised(const NormGeluArgs& a, const T* z, int64_t i, size_t n, Vec& p) {
  const Vec hat =
      hn::Mul(hn::Sub(load_part<kPartial>(z + i, n), load_part<kPartial>(a.mean + i, n)),
              load_part<kPartial>(a.rstd + i, n));
  p = hn::MulAdd(hat, load_part<kPartial>(a.weight + i, n), load_part<kPartial>(a.bias + i, n));
  return hat;
}

template <class T, bool kGelu>
void norm_gelu_rows(const NormGeluArgs& args, int64_t begin, int64_t end) {
  const NormGeluArgs a = args;
  for (int64_t r = begin; r < end; ++r) {
    const T* z = static_cast<const T*>(a.z) + r * a.width;
    T* to = static_cast<T*>(a.a) + r * a.width;
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      Vec p;
      normalised<partial>(a, z, i, n, p);
      if constexpr (kGelu) p = gelu_of<false>(p).value;
      store_part<partial>(p, to + i, n);
    });
  }
}

// grad_z receives the gradients of p. Their sums over rows follow each other: plain, then times the
// normalised values.
template <class T, bool kGelu>
void gelu_chunks(const NormGeluBackwardArgs& args, int64_t begin, int64_t end) {
  const NormGeluArgs a = args.forward;
  const RowChunks chunks(a.rows);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    float* sums = args.workspace + chunk * 2 * a.width;
    float* dots = sums + a.width;
    std::fill(sums, dots + a.width, 0.0f);
    for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
      const T* z = static_cast<const T*>(a.z) + r * a.width;
      const T* grad_a = static_cast<const T*>(args.grad_a) + r * a.width;
      T* grad_z = static_cast<T*>(args.grad_z) + r * a.width;
      over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
        Vec p;
        const Vec hat = normalised<partial>(a, z, i, n, p);
        Vec grad = load_part<partial>(grad_a + i, n);
        if constexpr (kGelu) grad = hn::Mul(grad, gelu_of<false>(p).slope);
        store_part<partial>(grad, grad_z + i, n);
        store_part<partial>(hn::Add(grad, load_part<partial>(sums + i, n)), sums + i, n);
        store_part<partial>(hn::MulAdd(grad, hat, load_part<partial>(dots + i, n)), dots + i, n);
      });
    }
  }
}

template <class T>
void through_statistics(const NormGeluBackwardArgs& args, int64_t begin, int64_t end) {
  const NormGeluArgs a = args.forward;
  const Vec share = hn::Set(Wide(), 1.0f / static_cast<float>(a.rows));
  for (int64_t r = begin; r < end; ++r) {
    const T* z = static_cast<const T*>(a.z) + r * a.width;
    T* grad_z = static_cast<T*>(args.grad_z) + r * a.width;
    over_row(a.width, [&](auto partial, int64_t i, size_t n) HWY_ATTR {
      Vec p;
      const Vec hat = normalised<partial>(a, z, i, n, p);
      const Vec mean = hn::Mul(load_part<partial>(args.grad_bias + i, n), share);
      const Vec slope = hn::Mul(load_part<partial>(args.grad_weight + i, n), share);
      const Vec left = hn::NegMulAdd(hat, slope, hn::Sub(load_part<partial>(grad_z + i, n), mean));
      const Vec factor =
          hn::Mul(load_part<partial>(a.weight + i, n), load_part<partial>(a.rstd + i, n));
      store_part<partial>(hn::Mul(factor, left), grad_z + i, n);
    });
  }
}

struct StemRuns {
  using Forward = void (*)(const NormGeluArgs&, int64_t, int64_t);
  using Backward = void (*)(const NormGeluBackwardArgs&, int64_t, int64_t);
  static auto moments(DType dtype) {
    return dtype == DType::kBfloat16 ? &moments_of_chunks<Bf16> : &moments_of_chunks<float>;
  }
  static Forward forward(const NormGeluArgs& a) {
    if (a.dtype == DType::kBfloat16) {
      return a.gelu ? &norm_gelu_rows<Bf16, true> : &norm_gelu_rows<Bf16, false>;
    }
    return a.gelu ? &norm_gelu_rows<float, true> : &norm_gelu_rows<float, false>;
  }
  static Backward gelu(const NormGeluArgs& a) {
    if (a.dtype == DType::kBfloat16) {
      return a.gelu ? &gelu_chunks<Bf16, true> : &gelu_chunks<Bf16, false>;
    }
    return a.gelu ? &gelu_chunks<float, true> : &gelu_chunks<float, false>;
  }
  static Backward statistics(const NormGeluArgs& a) {
    return a.dtype == DType::kBfloat16 ? &through_statistics<Bf16> : &through_statistics<float>;
  }
};

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {
void column_moments(const ColumnMomentsArgs& args, ParallelFor parallel) {
  over_chunks(TOST_OF_TARGET(StemRuns::moments(args.dtype)), args, args.rows, parallel);
  const RowChunks chunks(args.rows);
  for (int64_t i = 0; i < args.width; ++i) {
    double count = 0, mean = 0, squares = 0;
    for (int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
      const float* part = args.workspace + chunk * 2 * args.width + i;
      const auto more = static_cast<double>(chunks.end(chunk) - chunks.begin(chunk));
      const double off = static_cast<double>(part[0]) - mean;
      squares += static_cast<double>(part[args.width]) + off * off * count * more / (count + more);
      count += more;
      mean += off * more / count;
    }
    args.mean[i] = static_cast<float>(mean);
    args.variance[i] = static_cast<float>(squares / count);
  }
}

void norm_gelu(const NormGeluArgs& args, ParallelFor parallel) {
  over_rows(TOST_OF_TARGET(StemRuns::forward(args)), args, args.rows, parallel);
}

void norm_gelu_backward(const NormGeluBackwardArgs& args, ParallelFor parallel) {
  const NormGeluArgs& a = args.forward;
  const int64_t chunks = over_chunks(TOST_OF_TARGET(StemRuns::gelu(a)), args, a.rows, parallel);
  const int64_t stride = 2 * a.width;
  add_chunks(args.workspace, chunks, stride, a.width, args.grad_bias);
  add_chunks(args.workspace + a.width, chunks, stride, a.width, args.grad_weight);
  over_rows(TOST_OF_TARGET(StemRuns::statistics(a)), args, a.rows, parallel);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
