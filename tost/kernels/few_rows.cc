// The weight is read once, front to back, in one stream: on Zen 4 that reaches 0.85 of what a plain
// read does, where four rows side by side reach half.
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
constexpr int kSums = 4;  // independent, so that additions do not wait for one another

HWY_INLINE float to_float(float v) {
  return v;
}
HWY_INLINE float to_float(Bf16 v) {
  const uint32_t bits = uint32_t{v.bits} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// sums[r] = x[r] · w for kRows rows of x.
template <class T, int kRows>
HWY_INLINE void dot_products(const float* x, int64_t inputs, const T* w, float (&sums)[kRows]) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Wide> total[kRows][kSums];
  for (int r = 0; r < kRows; ++r) {
    for (int u = 0; u < kSums; ++u) total[r][u] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kSums * lanes <= inputs; i += kSums * lanes) {
    for (int u = 0; u < kSums; ++u) {
      const auto v = load(d, w + i + u * lanes);
      for (int r = 0; r < kRows; ++r) {
        total[r][u] = hn::MulAdd(hn::LoadU(d, x + r * inputs + i + u * lanes), v, total[r][u]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const auto pair = hn::Add(total[r][0], total[r][1]);
    float sum = sum_lanes(d, hn::Add(pair, hn::Add(total[r][2], total[r][3])));
    for (int64_t j = i; j < inputs; ++j) sum += x[r * inputs + j] * to_float(w[j]);
    sums[r] = sum;
  }
}

template <class T, int kRows>
void run_rows(const FewRowsArgs& a, int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    float sums[kRows];
    dot_products<T, kRows>(a.x, a.inputs, static_cast<const T*>(a.weight) + o * a.inputs, sums);
    const float bias = a.bias != nullptr ? to_float(static_cast<const T*>(a.bias)[o]) : 0.0f;
    for (int r = 0; r < kRows; ++r) a.y[r * a.outputs + o] = sums[r] + bias;
  }
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
  const int64_t per_task = std::max<int64_t>(1, kTaskSize / std::max<int64_t>(1, args.inputs));
  const int64_t tasks = (args.outputs + per_task - 1) / per_task;
  parallel(tasks, [&](int64_t begin, int64_t end) {
    run(args, begin * per_task, std::min(args.outputs, end * per_task));
  });
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
