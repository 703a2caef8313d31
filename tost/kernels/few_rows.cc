// The weight is read once, front to back, in one stream: on Zen 4 that reaches 0.85 of what a plain
// read does, where four rows side by side reach half.
#include "tost/kernels/few_rows.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/few_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/few_rows_int4-inl.h"
#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<float>;
constexpr int kSums = 4;  // independent, so that additions do not wait for one another

HWY_INLINE float to_float(float v) {
  return v;
}
HWY_INLINE float to_float(int8_t v) {
  return v;
}

// The float32 values of a vector of weights.
template <class T>
HWY_INLINE hn::Vec<Wide> load_weights(const T* w) {
  return load(Wide(), w);
}
HWY_INLINE hn::Vec<Wide> load_weights(const int8_t* w) {
  const hn::RebindToSigned<Wide> di;
  return hn::ConvertTo(Wide(), hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, Wide>(), w)));
}

// sums[r] = x[r] · w for kRows rows of x.
template <class T, int kRows>
HWY_INLINE void dot_products(const float* x, int64_t inputs, const T* w, float (&sums)[kRows]) {
  constexpr int64_t kAhead = sizeof(T) > 1 ? kWideAhead : kNarrowAhead;
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Wide> total[kRows][kSums];
  for (int r = 0; r < kRows; ++r) {
    for (int u = 0; u < kSums; ++u) total[r][u] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kSums * lanes <= inputs; i += kSums * lanes) {
    fetch_ahead(w + i, kSums * lanes * static_cast<int64_t>(sizeof(T)), kAhead);
    for (int u = 0; u < kSums; ++u) {
      const auto v = load_weights(w + i + u * lanes);
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

// Outputs at a time where weights come from a cache; 1: that would not be faster. Two of the four
// sums of kMostFewRows rows and three outputs, and what they are made of, fill 32 registers.
constexpr int kCachedOutputs = hn::MaxLanes(Wide()) == 16 ? 3 : 1;

// dot_products() of adjacent outputs, bit for bit: each vector that is loaded serves several sums.
template <class T, int kRows, int kOutputs>
HWY_INLINE void block_products(const float* x, int64_t inputs, const T* w,
                               float (&sums)[kOutputs][kRows]) {
  constexpr int kPart = kSums / 2;
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = kSums * lanes;
  hn::Vec<Wide> all[kOutputs][kRows];
  for (int part = 0; part < kSums; part += kPart) {
    hn::Vec<Wide> total[kOutputs][kRows][kPart];
    for (auto& output : total) {
      for (auto& row : output) row[0] = row[1] = hn::Zero(d);
    }
    for (int64_t i = part * lanes; i + (kSums - part) * lanes <= inputs; i += step) {
      for (int u = 0; u < kPart; ++u) {
        hn::Vec<Wide> v[kOutputs];
        for (int o = 0; o < kOutputs; ++o) v[o] = load_weights(w + o * inputs + i + u * lanes);
        for (int r = 0; r < kRows; ++r) {
          const auto own = hn::LoadU(d, x + r * inputs + i + u * lanes);
          for (int o = 0; o < kOutputs; ++o) total[o][r][u] = hn::MulAdd(own, v[o], total[o][r][u]);
        }
      }
    }
    for (int o = 0; o < kOutputs; ++o) {
      for (int r = 0; r < kRows; ++r) {
        const auto pair = hn::Add(total[o][r][0], total[o][r][1]);
        all[o][r] = part == 0 ? pair : hn::Add(all[o][r], pair);
      }
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    for (int r = 0; r < kRows; ++r) {
      float sum = sum_lanes(d, all[o][r]);
      for (int64_t j = inputs / step * step; j < inputs; ++j) {
        sum += x[r * inputs + j] * to_float(w[o * inputs + j]);
      }
      sums[o][r] = sum;
    }
  }
}

// y of output o from its sums.
template <class Bias, int kRows>
HWY_INLINE void finish(const FewRowsArgs& a, int64_t o, float scale, const float (&sums)[kRows]) {
  const float bias = a.bias != nullptr ? to_float(static_cast<const Bias*>(a.bias)[o]) : 0.0f;
  for (int r = 0; r < kRows; ++r) {
    const float value = sums[r] * scale + bias;
    float& y = a.y[r * a.outputs + o];
    y = a.gamma != nullptr ? y + a.gamma[o] * value : value;
  }
}

template <WeightType kType>
using Stored = std::conditional_t<kType == WeightType::kInt8, int8_t,
                                  std::conditional_t<kType == WeightType::kBfloat16, Bf16, float>>;

// As many outputs as there are whole blocks of; returns the first one that is left.
template <WeightType kType, int kRows>
int64_t run_blocks(const FewRowsArgs& a, int64_t begin, int64_t end) {
  using T = Stored<kType>;
  int64_t o = begin;
  for (; o + kCachedOutputs <= end; o += kCachedOutputs) {
    float sums[kCachedOutputs][kRows];
    block_products(a.x, a.inputs, static_cast<const T*>(a.weight) + o * a.inputs, sums);
    for (int k = 0; k < kCachedOutputs; ++k) {
      if constexpr (kType == WeightType::kInt8) {
        finish<float>(a, o + k, static_cast<const float*>(a.scales)[o + k], sums[k]);
      } else {
        finish<T>(a, o + k, 1, sums[k]);
      }
    }
  }
  return o;
}

template <WeightType kType, int kRows>
void run_rows(const FewRowsArgs& a, int64_t begin, int64_t end) {
  if constexpr (kCachedOutputs > 1 && kRows == kMostFewRows && kType != WeightType::kInt4) {
    if (a.cached) begin = run_blocks<kType, kRows>(a, begin, end);
  }
  for (int64_t o = begin; o < end; ++o) {
    float sums[kRows];
    if constexpr (kType == WeightType::kInt8) {
      dot_products(a.x, a.inputs, static_cast<const int8_t*>(a.weight) + o * a.inputs, sums);
      finish<float>(a, o, static_cast<const float*>(a.scales)[o], sums);
    } else if constexpr (kType == WeightType::kInt4) {
      int4_products(a.prepared, int4_groups(a.inputs),
                    static_cast<const uint8_t*>(a.weight) + o * int4_row_bytes(a.inputs),
                    static_cast<const Bf16*>(a.scales) + o * int4_groups(a.inputs), sums);
      finish<float>(a, o, 1, sums);
    } else {
      using T = Stored<kType>;
      dot_products(a.x, a.inputs, static_cast<const T*>(a.weight) + o * a.inputs, sums);
      finish<T>(a, o, 1, sums);
    }
  }
}

template <WeightType kType>
void run(const FewRowsArgs& a, int64_t begin, int64_t end) {
  switch (a.rows) {
    case 1:
      return run_rows<kType, 1>(a, begin, end);
    case 2:
      return run_rows<kType, 2>(a, begin, end);
    case 3:
      return run_rows<kType, 3>(a, begin, end);
    default:
      return run_rows<kType, 4>(a, begin, end);
  }
}

using FewRowsRun = void (*)(const FewRowsArgs&, int64_t, int64_t);
inline FewRowsRun few_rows_run(WeightType type) {
  switch (type) {
    case WeightType::kFloat32:
      return &run<WeightType::kFloat32>;
    case WeightType::kBfloat16:
      return &run<WeightType::kBfloat16>;
    case WeightType::kInt8:
      return &run<WeightType::kInt8>;
    case WeightType::kInt4:
      break;
  }
  return &run<WeightType::kInt4>;
}

using FewRowsPrepare = void (*)(const float*, int64_t, int64_t, void*);
inline FewRowsPrepare few_rows_prepare() {
  return &prepare_int4;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "tost/kernels/targets.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

// Weights of a task, in numbers: below this a thread costs more than it brings.
constexpr int64_t kTaskSize = 64 << 10;

}  // namespace

void linear_few_rows(const FewRowsArgs& args, ParallelFor parallel) {
  const auto run = TOST_OF_TARGET(few_rows_run(args.type));
  const int64_t per_task = std::max<int64_t>(1, kTaskSize / std::max<int64_t>(1, args.inputs));
  const int64_t tasks = (args.outputs + per_task - 1) / per_task;
  parallel(tasks, [&](int64_t begin, int64_t end) {
    const WorkTimer timer(Work::kProduct);
    run(args, begin * per_task, std::min(args.outputs, end * per_task));
  });
}

void linear_few_rows_part(const FewRowsArgs& args, int64_t begin, int64_t end) {
  const WorkTimer timer(Work::kProduct);
  TOST_OF_TARGET(few_rows_run(args.type))(args, begin, end);
}

void prepare_few_rows(WeightType type, const float* x, int64_t rows, int64_t inputs,
                      void* prepared) {
  if (prepared_stride(type, inputs) == 0) return;
  TOST_OF_TARGET(few_rows_prepare())(x, rows, inputs, prepared);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
