// Four rows of the weight at a time, each read once, front to back: 4 (float32) or 2 bytes
// (bfloat16) a product.
#include "tost/kernels/few_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/few_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;
constexpr int64_t kTogether = 4;          // rows of the weight
constexpr int64_t kPrefetchBytes = 1024;  // ahead; hides what the hardware prefetcher misses

HWY_INLINE float to_float(float v) {
  return v;
}
HWY_INLINE float to_float(Bf16 v) {
  const uint32_t bits = uint32_t{v.bits} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// sums[r][o] = x[r] · w[o] for kRows rows of x and kOut rows of w.
template <class T, int kRows, int kOut>
HWY_INLINE void dot_products(const float* x, int64_t inputs, const T* w,
                             float (&sums)[kRows][kOut]) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Wide> total[kRows][kOut];
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOut; ++o) total[r][o] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + lanes <= inputs; i += lanes) {
    hn::Vec<Wide> v[kOut];
    for (int o = 0; o < kOut; ++o) {
      const T* p = w + o * inputs + i;
      __builtin_prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes, 0, 0);
      v[o] = load(d, p);
    }
    for (int r = 0; r < kRows; ++r) {
      const auto xr = hn::LoadU(d, x + r * inputs + i);
      for (int o = 0; o < kOut; ++o) total[r][o] = hn::MulAdd(xr, v[o], total[r][o]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOut; ++o) {
      float sum = sum_lanes(d, total[r][o]);
      for (int64_t j = i; j < inputs; ++j) sum += x[r * inputs + j] * to_float(w[o * inputs + j]);
      sums[r][o] = sum;
    }
  }
}

template <class T, int kRows, int kOut>
HWY_INLINE void write_outputs(const FewRowsArgs& a, int64_t first) {
  float sums[kRows][kOut];
  dot_products<T, kRows, kOut>(a.x, a.inputs, static_cast<const T*>(a.weight) + first * a.inputs,
                               sums);
  for (int o = 0; o < kOut; ++o) {
    const float bias =
        a.bias != nullptr ? to_float(static_cast<const T*>(a.bias)[first + o]) : 0.0f;
    for (int r = 0; r < kRows; ++r) a.y[r * a.outputs + first + o] = sums[r][o] + bias;
  }
}

template <class T, int kRows>
void run_rows(const FewRowsArgs& a, int64_t begin, int64_t end) {
  int64_t o = begin;
  for (; o + kTogether <= end; o += kTogether) write_outputs<T, kRows, kTogether>(a, o);
  for (; o < end; ++o) write_outputs<T, kRows, 1>(a, o);
}

template <class T>
void run(const FewRowsArgs& a, int64_t begin, int64_t end) {
  switch (a.rows) {
    case 1:
      return run_rows<T, 1>(a, begin, end);
    case 2:
      return run_rows<T, 2>(a, begin, end);
    case 3:
      return run_rows<T, 3>(a, begin, end);
    default:
      return run_rows<T, 4>(a, begin, end);
  }
}

using FewRowsRun = void (*)(const FewRowsArgs&, int64_t, int64_t);
inline FewRowsRun few_rows_run(DType dtype) {
  return dtype == DType::kBfloat16 ? &run<Bf16> : &run<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "tost/kernels/isa.h"
#include "tost/kernels/targets.h"

namespace tost::kernels {
namespace {

using FewRowsRun = void (*)(const FewRowsArgs&, int64_t, int64_t);

FewRowsRun run_of_target(int64_t target, DType dtype) {
#define TOST_CASE(TARGET, NAMESPACE) \
  if (target == (TARGET)) return NAMESPACE::few_rows_run(dtype);
  TOST_FOR_EACH_TARGET(TOST_CASE)
#undef TOST_CASE
  __builtin_unreachable();  // isa.h gives only targets that are built in
}

// Weights of a task, in numbers: below this a thread costs more than it brings.
constexpr int64_t kTaskSize = 64 << 10;

}  // namespace

void linear_few_rows(const FewRowsArgs& args, ParallelFor parallel) {
  const auto run = run_of_target(current_isa_target(), args.dtype);
  // Whole groups of four rows, so that the cut does not change how a row is summed.
  const int64_t groups = (args.outputs + 3) / 4;
  const int64_t per_task = std::max<int64_t>(1, kTaskSize / std::max<int64_t>(1, 4 * args.inputs));
  const int64_t tasks = (groups + per_task - 1) / per_task;
  parallel(tasks, [&](int64_t begin, int64_t end) {
    run(args, begin * per_task * 4, std::min(args.outputs, end * per_task * 4));
  });
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
