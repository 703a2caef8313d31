#include "tost/kernels/adamw.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/adamw.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class T>
void adamw_range(const AdamWArgs& args, int64_t begin, int64_t end) {
  const Wide d;
  const AdamWArgs a = args;
  const T* gradient = static_cast<const T*>(a.gradient) + begin;
  float *p = a.p + begin, *m = a.m + begin, *v = a.v + begin;
  Bf16* copy = a.copy != nullptr ? static_cast<Bf16*>(a.copy) + begin : nullptr;
  const WideVec scale = hn::Set(d, a.scale), decay = hn::Set(d, a.decay), eps = hn::Set(d, a.eps);
  const WideVec rest1 = hn::Set(d, a.rest1), rest2 = hn::Set(d, a.rest2);
  const WideVec rate = hn::Set(d, a.rate), root = hn::Set(d, a.root);
  over_row(end - begin, [&](auto partial, int64_t i, int64_t n) TOST_INLINE {
    const WideVec g = hn::Mul(load_part<partial>(gradient + i, n), scale);
    const WideVec m_old = load_part<partial>(m + i, n);
    const WideVec m_new = hn::MulAdd(rest1, hn::Sub(g, m_old), m_old);
    const WideVec v_old = load_part<partial>(v + i, n);
    const WideVec v_new = hn::MulAdd(rest2, hn::MulSub(g, g, v_old), v_old);
    const WideVec divisor = hn::MulAdd(hn::Sqrt(v_new), root, eps);
    const WideVec moved = hn::Mul(rate, hn::Div(m_new, divisor));
    const WideVec p_new = hn::Sub(hn::Mul(load_part<partial>(p + i, n), decay), moved);
    store_part<partial>(m_new, m + i, n);
    store_part<partial>(v_new, v + i, n);
    store_part<partial>(p_new, p + i, n);
    if (copy != nullptr) store_part<partial>(p_new, copy + i, n);
  });
}

// Uses two sums, because each addition waits for the one before it. Prefetches the next values,
// because narrow loads keep too few bytes in flight.
template <class T>
double squares_range(const void* x, int64_t begin, int64_t end) {
  constexpr size_t kAhead = 1024;  // bytes
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* from = static_cast<const T*>(x) + begin;
  const int64_t count = end - begin;
  auto one = hn::Zero(d), two = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    hwy::Prefetch(from + i + kAhead / sizeof(T));
    const auto a = hn::PromoteTo(d, load(df, from + i));
    const auto b = hn::PromoteTo(d, load(df, from + i + lanes));
    one = hn::MulAdd(a, a, one);
    two = hn::MulAdd(b, b, two);
  }
  for (; i < count; i += lanes) {
    const auto n = static_cast<size_t>(std::min(lanes, count - i));
    const auto a = hn::PromoteTo(d, load_first(df, from + i, n));
    one = hn::MulAdd(a, a, one);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(one, two)));
}

inline auto adamw_step(DType dtype) {
  return dtype == DType::kBfloat16 ? &adamw_range<Bf16> : &adamw_range<float>;
}
inline auto square_sum(DType dtype) {
  return dtype == DType::kBfloat16 ? &squares_range<Bf16> : &squares_range<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(adamw_step);
HWY_EXPORT(square_sum);

constexpr int64_t kPiece = 16 << 10;  // numbers

}  // namespace

void adamw(const AdamWArgs& args, ParallelFor parallel) {
  const auto run = TOST_DISPATCH(adamw_step)(args.gradient_dtype);
  const int64_t pieces = (args.count + kPiece - 1) / kPiece;
  parallel(pieces, [&](int64_t begin, int64_t end) {
    run(args, begin * kPiece, std::min(args.count, end * kPiece));
  });
}

int64_t sum_of_squares_parts(int64_t count) {
  return (count + kPiece - 1) / kPiece;
}

double sum_of_squares(const void* x, DType dtype, int64_t count, double* partial,
                      ParallelFor parallel) {
  const auto run = TOST_DISPATCH(square_sum)(dtype);
  const int64_t pieces = sum_of_squares_parts(count);
  parallel(pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      partial[i] = run(x, i * kPiece, std::min(count, (i + 1) * kPiece));
    }
  });
  double sum = 0;
  for (int64_t i = 0; i < pieces; ++i) sum += partial[i];
  return sum;
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
