// Products of a few rows read the weight once, front to back, in one stream. On Zen 4 one stream
// reaches 0.85 of the speed of a plain read; four streams in parallel reach half.
#include "tost/kernels/products/few_rows.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/few_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int kSums = 4;  // independent, so that additions do not wait for one another

// The distance in bytes at which weights are prefetched. On cores with AMX, other distances are
// slower for float32 and bfloat16.
constexpr int64_t kWideAhead = 2048, kNarrowAhead = 4096;

// Prefetches `bytes` bytes at the distance `ahead` after `from`, for a stream that is read front to
// back, because hardware prefetchers stop at every page of 4 KiB; the address may be past it.
HWY_INLINE void fetch_ahead(const void* from, int64_t bytes, int64_t ahead) {
  for (int64_t b = 0; b < bytes; b += 64) {
    hwy::Prefetch(static_cast<const char*>(from) + ahead + b);
  }
}

HWY_INLINE float to_float(Bf16 v) {
  return __builtin_bit_cast(float, uint32_t{v.bits} << 16);
}

HWY_INLINE float to_float(float v) {
  return v;
}

// Adds the products of inputs that fill no whole vectors. Not inlined, so that no caller's sums are
// rounded otherwise.
template <class T>
HWY_NOINLINE float add_rest(float sum, const float* x, const T* w, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum += x[i] * to_float(w[i]);
  return sum;
}

// Loads a vector of weights as float32.
template <class T>
HWY_INLINE hn::Vec<Wide> load_weights(const T* w) {
  return load(Wide(), w);
}
HWY_INLINE hn::Vec<Wide> load_weights(const int8_t* w) {
  const hn::RebindToSigned<Wide> di;
  return hn::ConvertTo(Wide(), hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, Wide>(), w)));
}

// Computes sums[r] = x[r] · w for kRows rows of x.
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
    const float sum = sum_lanes(d, hn::Add(pair, hn::Add(total[r][2], total[r][3])));
    sums[r] = i < inputs ? add_rest(sum, x + r * inputs + i, w + i, inputs - i) : sum;
  }
}

// The outputs of a tile, whose sums for kMostFewRows rows, and their inputs, fill the registers.
constexpr int kTileOutputs = hn::MaxLanes(Wide()) == 16 || HWY_TARGET == HWY_NEON ? 6 : 3;
constexpr int64_t kBlock = 768;  // inputs whose tile stays in the L1 cache

// Computes dot_products() of adjacent outputs, bit for bit, one of kSums sums at a time; each
// loaded vector serves several sums. Prefetches `next` into the L2 cache, `step` bytes at a time.
template <class T>
HWY_NOINLINE void tile_products(const float* x, int64_t inputs, const T* w, const char*& next,
                                int64_t step, float (&sums)[kTileOutputs][kMostFewRows]) {
  constexpr int kRows = kMostFewRows, kCount = kTileOutputs * kRows;
  constexpr int64_t kLanes = hn::MaxLanes(Wide()), kStep = kSums * kLanes;
  const Wide d;
  HWY_ALIGN float parts[kSums][kCount][kLanes];
  const int64_t whole = inputs / kStep * kStep;
  int64_t begin = 0;
  do {
    const int64_t end = std::min(whole, begin + kBlock);
    for (int u = 0; u < kSums; ++u) {
      hn::Vec<Wide> sum[kCount], v[kTileOutputs];
#pragma GCC unroll 24
      for (int s = 0; s < kCount; ++s) {
        sum[s] = begin == 0 ? hn::Zero(d) : hn::Load(d, parts[u][s]);
      }
      for (int64_t i = begin + u * kLanes; i < end; i += kStep, next += step) {
        __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 6
        for (int o = 0; o < kTileOutputs; ++o) v[o] = load_weights(w + o * inputs + i);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const auto input = hn::LoadU(d, x + r * inputs + i);
#pragma GCC unroll 6
          for (int o = 0; o < kTileOutputs; ++o) {
            sum[o * kRows + r] = hn::MulAdd(input, v[o], sum[o * kRows + r]);
          }
        }
      }
#pragma GCC unroll 24
      for (int s = 0; s < kCount; ++s) hn::Store(sum[s], d, parts[u][s]);
    }
    begin += kBlock;
  } while (begin < whole);
#pragma GCC unroll 24
  for (int s = 0; s < kCount; ++s) {
    const auto part = [&](int u) TOST_INLINE { return hn::Load(d, parts[u][s]); };
    const float sum = sum_lanes(d, hn::Add(hn::Add(part(0), part(1)), hn::Add(part(2), part(3))));
    const int64_t o = s / kRows, r = s % kRows;
    sums[o][r] = add_rest(sum, x + r * inputs + whole, w + o * inputs + whole, inputs - whole);
  }
}

// ---- Weights of four bits against inputs of sixteen: integers within a group, float32 over
// groups. A group's 32 inputs are four planes of eight. Lane l of a group's eight 16-bit words has
// the weights of planes 0 to 3 at l, so one load of words serves four loads of inputs.

// A row of inputs as integers: planes [4][8 groups], the sum of each group (with a vector of zeros
// at the end), and the row's factor.
struct Int4Row {
  int16_t* planes;
  float* sums;
  float* factor;
};
HWY_INLINE Int4Row int4_row(const void* prepared, int64_t groups, int64_t row) {
  auto* base = static_cast<char*>(const_cast<void*>(prepared)) + row * int4_input_stride(groups);
  auto* sums = reinterpret_cast<float*>(base + groups * 64);
  return {reinterpret_cast<int16_t*>(base), sums, sums + groups + 16};
}

// The largest magnitude of `count` values, or NaN if one is not finite.
inline float largest_value(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), poison = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  }
  float top = hn::GetLane(hn::MaxOfLanes(d, largest)), bad = sum_lanes(d, poison);
  for (; i < count; ++i) {
    top = std::max(top, std::abs(x[i]));
    bad += x[i] * 0;
  }
  return top + bad;
}

// Multiplies the 32 inputs at `x` by `inverse`, and writes them as group g of `row`.
HWY_INLINE void prepare_int4_group(const float* x, float inverse, int64_t groups, int64_t g,
                                   const Int4Row& row) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(di);
  for (int64_t j = 0; j < kInt4Group; j += lanes) {
    const auto v = hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, inverse)));
    sum = hn::Add(sum, v);
    hn::StoreU(hn::DemoteTo(d16, v), d16, row.planes + (j / 8 * groups + g) * 8 + j % 8);
  }
  row.sums[g] = static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
}

inline void prepare_int4(const float* x, int64_t rows, int64_t inputs, void* prepared) {
  const int64_t groups = int4_groups(inputs), whole = inputs / kInt4Group;
  for (int64_t r = 0; r < rows; ++r, x += inputs) {
    const auto row = int4_row(prepared, groups, r);
    const float top = largest_value(x, inputs), inverse = top > 1e-30f ? 32767 / top : 0;
    *row.factor = top * (1.0f / 32767);
    for (int64_t g = 0; g < whole; ++g) {
      prepare_int4_group(x + g * kInt4Group, inverse, groups, g, row);
    }
    for (int64_t g = whole; g < groups; ++g) {
      float some[kInt4Group] = {};
      for (int64_t j = g * kInt4Group; j < inputs; ++j) some[j % kInt4Group] = x[j];
      prepare_int4_group(some, inverse, groups, g, row);
    }
    std::fill_n(row.sums + groups, 16, 0.0f);
  }
}

#if HWY_TARGET == HWY_SCALAR

// Computes sums[r] = x[r] · w.
template <int kRows>
HWY_INLINE void int4_products(const void* x, int64_t groups, const uint8_t* w, const Bf16* scales,
                              float (&sums)[kRows]) {
  for (int r = 0; r < kRows; ++r) {
    const auto row = int4_row(x, groups, r);
    sums[r] = 0;
    for (int64_t g = 0; g < groups; ++g) {
      int32_t sum = 0;
      for (int64_t i = 0; i < kInt4Group; ++i) {
        const auto at = int4_position(i);
        const int32_t value = (w[g * 16 + at.byte] >> at.shift) & 15;
        sum += value * row.planes[(i / 8 * groups + g) * 8 + i % 8];
      }
      sums[r] += (static_cast<float>(sum) - 8 * row.sums[g]) * to_float(scales[g]);
    }
    sums[r] *= *row.factor;
  }
}

#else

// Computes sums[r] = x[r] · w.
template <int kRows>
HWY_INLINE void int4_products(const void* x, int64_t groups, const uint8_t* w, const Bf16* scales,
                              float (&sums)[kRows]) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<int16_t, decltype(d)> d16;
  const hn::Repartition<uint16_t, decltype(d)> du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = lanes / 4;  // groups a vector
  const auto mask = hn::Set(du16, 15);
  // The indices of the scales for the sums in a vector; `lanes` scales serve four vectors.
  const auto quarter = hn::ShiftRight<2>(hn::Iota(di, 0));
  Int4Row row[kRows];
  hn::Vec<decltype(d)> total[kRows], eighth[kRows];  // of the weights + 8, and only of the inputs
  for (int r = 0; r < kRows; ++r) {
    row[r] = int4_row(x, groups, r);
    total[r] = eighth[r] = hn::Zero(d);
  }
  for (int64_t first = 0; first < groups; first += lanes) {
    const int64_t left = std::min(lanes, groups - first);
    const auto some = left == lanes ? load(d, scales + first)
                                    : load_first(d, scales + first, static_cast<size_t>(left));
    for (int r = 0; r < kRows; ++r) {
      eighth[r] = hn::MulAdd(some, hn::LoadU(d, row[r].sums + first), eighth[r]);
    }
    auto which = quarter;
    for (int64_t g = first; g < first + left; g += step) {
      const auto scale = hn::TableLookupLanes(some, hn::IndicesFromVec(d, which));
      which = hn::Add(which, hn::Set(di, static_cast<int32_t>(step)));
      fetch_ahead(w + g * 16, step * 16, kNarrowAhead);
      const auto words = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(w + g * 16));
      const hn::Vec<decltype(d16)> parts[4] = {
          hn::BitCast(d16, hn::And(words, mask)),
          hn::BitCast(d16, hn::And(hn::ShiftRight<4>(words), mask)),
          hn::BitCast(d16, hn::And(hn::ShiftRight<8>(words), mask)),
          hn::BitCast(d16, hn::ShiftRight<12>(words))};
      for (int r = 0; r < kRows; ++r) {
        auto even = hn::Zero(di), odd = hn::Zero(di);
        for (int64_t k = 0; k < 4; ++k) {
          const auto inputs = hn::LoadU(d16, row[r].planes + (k * groups + g) * 8);
          even = hn::ReorderWidenMulAccumulate(di, parts[k], inputs, even, odd);
        }
        const auto sum = hn::RearrangeToOddPlusEven(even, odd);
        total[r] = hn::MulAdd(hn::ConvertTo(d, sum), scale, total[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const auto sum = hn::NegMulAdd(hn::Set(d, 8.0f), eighth[r], total[r]);
    sums[r] = sum_lanes(d, sum) * *row[r].factor;
  }
}

#endif

// ---- Outputs ----

template <WeightType kType>
using Stored = std::conditional_t<kType == WeightType::kInt8, int8_t,
                                  std::conditional_t<kType == WeightType::kBfloat16, Bf16, float>>;

// Writes y of output o from the sums of rows, from the row `first` on.
template <WeightType kType, int kRows>
HWY_INLINE void finish(const FewRowsArgs& a, int64_t o, const float (&sums)[kRows], int first = 0) {
  using Bias = std::conditional_t<kType == WeightType::kBfloat16, Bf16, float>;
  const float bias = a.bias != nullptr ? to_float(static_cast<const Bias*>(a.bias)[o]) : 0.0f;
  const float scale = kType == WeightType::kInt8 ? static_cast<const float*>(a.scales)[o] : 1.0f;
  for (int r = first; r < kRows; ++r) {
    const float value = sums[r] * scale + bias;
    float& y = a.y[r * a.outputs + o];
    y = a.gamma != nullptr ? y + a.gamma[o] * value : value;
  }
}

// Returns the arguments for the rows from `row` on.
HWY_INLINE FewRowsArgs rows_from(FewRowsArgs a, int64_t row) {
  a.rows = std::min(kMostFewRows, a.rows - row);
  if (a.x != nullptr) a.x += row * a.inputs;
  a.prepared = static_cast<const char*>(a.prepared) + row * prepared_stride(a.type, a.inputs);
  a.y += row * a.outputs;
  return a;
}

template <WeightType kType, int kRows>
void run_rows(const FewRowsArgs& a, int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    float sums[kRows];
    if constexpr (kType == WeightType::kInt4) {
      int4_products(a.prepared, int4_groups(a.inputs),
                    static_cast<const uint8_t*>(a.weight) + o * int4_row_bytes(a.inputs),
                    static_cast<const Bf16*>(a.scales) + o * int4_groups(a.inputs), sums);
    } else {
      dot_products(a.x, a.inputs, static_cast<const Stored<kType>*>(a.weight) + o * a.inputs, sums);
    }
    finish<kType>(a, o, sums);
  }
}

// Computes whole tiles of more than kMostFewRows rows; returns the first output that is left.
template <WeightType kType>
int64_t run_tiles(const FewRowsArgs& a, int64_t begin, int64_t end) {
  using T = Stored<kType>;
  constexpr int64_t kBytes = kTileOutputs * sizeof(T);  // of an input
  const int64_t step = kBytes * hn::MaxLanes(Wide()) * kMostFewRows / a.rows;
  for (; begin + kTileOutputs <= end; begin += kTileOutputs) {
    const T* w = static_cast<const T*>(a.weight) + begin * a.inputs;
    const char* next = reinterpret_cast<const char*>(w) + kBytes * a.inputs;
    for (int64_t row = 0; row < a.rows; row += kMostFewRows) {
      // The last tile has some rows of the tile before.
      const int64_t first = std::min(row, a.rows - kMostFewRows);
      const FewRowsArgs few = rows_from(a, first);
      float sums[kTileOutputs][kMostFewRows];
      tile_products(few.x, a.inputs, w, next, step, sums);
      for (int o = 0; o < kTileOutputs; ++o) {
        finish<kType>(few, begin + o, sums[o], static_cast<int>(row - first));
      }
    }
  }
  return begin;
}

template <WeightType kType>
void run(const FewRowsArgs& a, int64_t begin, int64_t end) {
  switch (a.rows) {
    case 0:
      return;
    case 1:
      return run_rows<kType, 1>(a, begin, end);
    case 2:
      return run_rows<kType, 2>(a, begin, end);
    case 3:
      return run_rows<kType, 3>(a, begin, end);
    case 4:
      return run_rows<kType, 4>(a, begin, end);
    default:
      break;
  }
  if constexpr (kType != WeightType::kInt4) begin = run_tiles<kType>(a, begin, end);
  constexpr int64_t kAtOnce = 16;  // outputs whose weights stay in a cache
  for (; begin < end; begin += kAtOnce) {
    for (int64_t row = 0; row < a.rows; row += kMostFewRows) {
      run<kType>(rows_from(a, row), begin, std::min(end, begin + kAtOnce));
    }
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

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(few_rows_run);
HWY_EXPORT(prepare_int4);

}  // namespace

void linear_few_rows(const FewRowsArgs& args, int64_t begin, int64_t end) {
  const WorkTimer timer(Work::kProduct);
  TOST_DISPATCH(few_rows_run)(args.type)(args, begin, end);
}

void prepare_few_rows(WeightType type, const float* x, int64_t rows, int64_t inputs,
                      void* prepared) {
  if (prepared_stride(type, inputs) == 0) return;
  TOST_DISPATCH(prepare_int4)(x, rows, inputs, prepared);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
