// Products of a few rows read the weight once, front to back, in one stream. On Zen 4 one stream
// reaches 0.85 of the speed of a plain read; four streams in parallel reach half. Columns are in
// the lanes of vectors, so that a sum adds its products in the order of the inputs for any number
// of rows, and no lanes are added at the end.
#include "tost/kernels/products/few_rows.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/products/few_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tost/base/checked.h"
#include "tost/kernels/products/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

constexpr int kPanelVectors = kPanelColumns / kVectorLanes;
constexpr int kTilePanels = std::max(1, kTileVectors / kPanelVectors);
constexpr int kTilesOfPanel = std::max(1, kPanelVectors / kTileVectors);
constexpr int64_t kAdjacentColumns = kTilePanels * kPanelColumns;
// The largest number of rows whose sums leave arithmetic units idle.
constexpr int kFewRows = std::max(1, 4 / kPanelVectors);
// The inputs of a block. Its weights fit 32 KiB of L1 as float32; with those of the next block,
// which are prefetched if they are float32, they fit 48 KiB, or 32 without AVX-512.
template <class T>
constexpr int64_t kBlock = kTilePanels > 1  ? 128
                           : sizeof(T) == 4 ? 192
                                            : 384;
constexpr int64_t kRowsAtOnce = 64;

// The distance in bytes at which weights are prefetched. On cores with AMX, other distances are
// slower for float32 and bfloat16.
constexpr int64_t kWideAhead = 3072, kNarrowAhead = 5120;

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

HWY_INLINE float to_float(Bf16 v) {
  return __builtin_bit_cast(float, uint32_t{v.bits} << 16);
}

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
      for (int64_t b = 0; b < step * 16; b += 64) hwy::Prefetch(w + g * 16 + kNarrowAhead + b);
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

// Writes `count` outputs from `first` on of rows whose sums are `stride` apart.
template <class T>
HWY_INLINE void finish(const FewRowsArgs& a, int64_t first, int64_t count, const float* sums,
                       int64_t stride) {
  const auto* scales = static_cast<const float*>(a.scales);
  for (int64_t r = 0; r < a.rows; ++r, sums += stride) {
    float* y = a.y + r * a.outputs + first;
    for (int64_t i = 0; i < count; ++i) {
      float value = sums[i];
      if (sizeof(T) == 1) value *= scales[first + i];
      if (a.bias != nullptr) value += a.bias[first + i];
      y[i] = a.gamma != nullptr ? y[i] + a.gamma[first + i] * value : value;
    }
  }
}

// Returns the arguments for `count` rows from `row` on.
HWY_INLINE FewRowsArgs rows_from(FewRowsArgs a, int64_t row, int64_t count) {
  a.rows = std::min(count, a.rows - row);
  if (a.x != nullptr) a.x += row * a.inputs;
  a.prepared = static_cast<const char*>(a.prepared) + row * prepared_stride(a.type, a.inputs);
  a.y += row * a.outputs;
  return a;
}

template <int kRows>
void int4_rows(const FewRowsArgs& a, int64_t begin, int64_t end) {
  const int64_t groups = int4_groups(a.inputs);
  for (int64_t o = begin; o < end; ++o) {
    float sums[kRows];
    int4_products(a.prepared, groups,
                  static_cast<const uint8_t*>(a.weight) + o * int4_row_bytes(a.inputs),
                  static_cast<const Bf16*>(a.scales) + o * groups, sums);
    finish<float>(a, o, 1, sums, 1);
  }
}

inline void run_int4(const FewRowsArgs& all, int64_t begin, int64_t end) {
  constexpr int64_t kRows = 4, kAtOnce = 16;  // outputs whose weights stay in a cache
  for (; begin < end; begin += kAtOnce) {
    const int64_t last = std::min(end, begin + kAtOnce);
    for (int64_t row = 0; row < all.rows; row += kRows) {
      const FewRowsArgs a = rows_from(all, row, kRows);
      constexpr void (*kByRows[])(const FewRowsArgs&, int64_t, int64_t) = {
          int4_rows<1>, int4_rows<2>, int4_rows<3>, int4_rows<4>};
      kByRows[a.rows - 1](a, begin, last);
    }
  }
}

// Writes a panel's weights of `inputs` inputs, of pairs whole ones, as float32.
template <class T>
HWY_INLINE void widen(const T* from, int64_t inputs, float* to) {
  for (int64_t i = 0; i < inputs * kPanelColumns; i += kVectorLanes) {
    hn::Store(load_weights(from + i, false), Wide(), to + i);
  }
}
HWY_INLINE void widen(const Bf16* from, int64_t inputs, float* to) {
  const auto* pairs = reinterpret_cast<const Bf16Pair*>(from);
  for (int64_t i = 0; i < inputs; i += 2, pairs += kPanelColumns, to += 2 * kPanelColumns) {
    for (int64_t c = 0; c < kPanelColumns; c += kVectorLanes) {
      hn::Store(load_weights(pairs + c, false), Wide(), to + c);
      hn::Store(load_weights(pairs + c, true), Wide(), to + c + kPanelColumns);
    }
  }
}

// Computes sums [rows, kAdjacentColumns] of adjacent panels, block by block: shorter sums have
// smaller errors. Inputs with even and odd numbers have sums of their own, which few rows add side
// by side to keep the arithmetic units busy. Rows of one tile read the weights as they are; those
// of more share a block widened to float32, and prefetch the next block in equal parts.
template <class T>
void panel_sums(const FewRowsArgs& a, const T* weight, int64_t panels, float* sums) {
  constexpr int64_t kInputs = kBlock<T>, kInBlock = kInputs * kPanelColumns, kSize = sizeof(T);
  constexpr bool kPairs = kSize == 2;
  using Stored = std::conditional_t<kPairs, Bf16Pair, T>;
  using Second = std::conditional_t<kPairs, Bf16Second, T>;
  const int64_t panel = panel_inputs(a.type, a.inputs) * kPanelColumns;
  const int64_t vectors = panels * kPanelVectors, tiles = divide_up(a.rows, kTileRows);
  const int64_t share = panels * kInBlock / (2 * tiles * kTilesOfPanel);
  HWY_ALIGN float wide[kInputs * kAdjacentColumns];
  for (int64_t first = 0; first == 0 || first < a.inputs; first += kInputs) {
    const T* block = weight + first * kPanelColumns;
    const auto* even = reinterpret_cast<const Stored*>(block);
    const auto* odd = reinterpret_cast<const Second*>(even + (kPairs ? 0 : kPanelColumns));
    const int64_t inputs = std::min(kInputs, a.inputs - first);
    if (a.rows <= kFewRows && panels == 1) {
      Factors<Stored> f{a.x + first, a.inputs, even, kPanelColumns, inputs};
      f.next = reinterpret_cast<const char*>(block) + (kSize > 1 ? kWideAhead : kNarrowAhead);
      f.next_bytes = 4 * kPanelColumns * kSize;
      f.sums_stride = kAdjacentColumns;
      f.add = first > 0;
      multiply_part<kFewRows, kPanelVectors, false, 2>(f, a.rows, kPanelVectors, sums);
      continue;
    }
    const bool widened = kSize < 4 && tiles > 1;
    for (int64_t p = 0; widened && p < panels; ++p) {
      widen(block + p * panel, inputs, wide + p * kInBlock);
    }
    const T* next = first + kInputs < a.inputs ? block + kInBlock : weight + panels * panel;
    for (int64_t t = 0, at = 0; t < tiles; ++t) {
      const int64_t row = a.rows * t / tiles, rows = a.rows * (t + 1) / tiles - row;
      for (int64_t v = 0; v < vectors; v += kTileVectors) {
        const auto add = [&]<class W>(const W* from, int64_t apart, bool second) TOST_INLINE {
          Factors<W, 2, (kPanelVectors < kTileVectors), kSize == 4> f{
              a.x + first + row * a.inputs + second, a.inputs, from + v * kVectorLanes,
              kPanelColumns * (std::is_arithmetic_v<W> ? 2 : 1), (inputs + !second) / 2};
          f.next = reinterpret_cast<const char*>(next + at / kInBlock * panel + at % kInBlock);
          f.next_bytes = share * kSize * 8 / kInputs;
          f.sums_stride = kAdjacentColumns;
          f.add = first > 0 || second;
          f.vector_stride = apart;
          at += share;
          multiply_part<kTileRows, kTileVectors, true>(
              f, rows, vectors - v, sums + row * kAdjacentColumns + v * kVectorLanes);
        };
        if (widened) {
          for (bool second : {false, true}) add(wide + second * kPanelColumns, kInBlock, second);
        } else {
          add(even, panel / (kPairs ? 2 : 1), false);
          add(odd, panel / (kPairs ? 2 : 1), true);
        }
      }
    }
  }
}

template <class T>
void run(const FewRowsArgs& all, int64_t begin, int64_t end) {
  HWY_ALIGN float sums[kRowsAtOnce * kAdjacentColumns];
  const int64_t step = all.rows <= kFewRows ? kPanelColumns : kAdjacentColumns;
  for (; begin < end; begin += step) {
    const T* weight =
        static_cast<const T*>(all.weight) + begin * panel_inputs(all.type, all.inputs);
    const int64_t count = std::min(step, end - begin);
    for (int64_t row = 0; row < all.rows; row += kRowsAtOnce) {
      const FewRowsArgs a = rows_from(all, row, kRowsAtOnce);
      panel_sums(a, weight, divide_up(count, kPanelColumns), sums);
      finish<T>(a, begin, count, sums, kAdjacentColumns);
    }
  }
}

using FewRowsRun = void (*)(const FewRowsArgs&, int64_t, int64_t);
inline FewRowsRun few_rows_run(WeightType type) {
  constexpr FewRowsRun kRuns[] = {run<float>, run<Bf16>, run<int8_t>, run_int4};
  return kRuns[static_cast<int>(type)];
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"
#include "tost/kernels/products/tile_rows.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

HWY_EXPORT(few_rows_run);
HWY_EXPORT(prepare_int4);

// Computes outputs of rounded rows.
void product_of_rounded(const FewRowsArgs& args, int64_t begin, int64_t end) {
  const int64_t column_bytes = args.inputs * 2;
  const int64_t at_once = has_tiles() ? 4 * kTileColumns : end - begin;
  ProductArgs a;
  a.numbers = Numbers::kBfloat16;
  a.x = args.rounded;
  a.inputs = a.x_stride = args.inputs / 2;
  a.panel_stride = a.inputs * kGroupColumns;
  a.finish.rows = args.rows;
  a.finish.out_stride = args.outputs;
  a.finish.add = args.gamma != nullptr;
  for (; begin < end; begin += at_once) {
    const int64_t count = a.finish.columns = std::min(at_once, end - begin);
    a.finish.bias = args.bias != nullptr ? args.bias + begin : nullptr;
    a.finish.gamma = args.gamma != nullptr ? args.gamma + begin : nullptr;
    a.finish.out = args.y + begin;
    a.weight = static_cast<const char*>(args.weight) + begin * column_bytes;
    a.next = {static_cast<const char*>(a.weight) + count * column_bytes, count * column_bytes, 0,
              1};
    product(a);
  }
}

}  // namespace

void linear_few_rows(const FewRowsArgs& args, int64_t begin, int64_t end) {
  if (args.rounded != nullptr) return product_of_rounded(args, begin, end);
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
