#include "tost/engine/packed_linear.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/engine/threads.h"
#include "tost/kernels/products/wide_rows.h"
#include "tost/kernels/work_times.h"

namespace tost {
namespace {

// Sums of more inputs could exceed int32.
constexpr int64_t kMaxInt8Inputs = 0x7fffffff / (255 * 127);

std::atomic<Microkernels (*)()> finder{nullptr};

const Microkernels& microkernels() {
  static const Microkernels found = finder != nullptr ? finder.load()() : Microkernels();
  return found;
}

bool has_microkernel(Packing packing) {
  const auto product =
      packing == Packing::kBfloat16 ? microkernels().bfloat16 : microkernels().int8;
  return packing != Packing::kFloat32 && product != nullptr;
}

// Whether kInt8 has no microkernel here but pair_product() serves.
bool int8_by_pairs() {
  return kernels::has_pair_product() && !has_microkernel(Packing::kInt8);
}

// The map of a float matrix [out, in].
StepWeight float_map(const Array& weight, const Array& bias) {
  if (weight.shape().size() != 2 || weight.numel() == 0) {
    fail_usage("A packed linear map is made from a floating matrix [out, in]; got ", shown(weight),
               ".");
  }
  if (bias.defined() && bias.shape() != Array::Shape{weight.size(0)}) {
    fail_usage("The bias of a packed linear map with ", weight.size(0), " outputs has ",
               bias.numel(), " values.");
  }
  return {.inputs = weight.size(1), .values = weight.as_float(), .bias = bias};
}

}  // namespace

void find_microkernels_by(Microkernels (*find)()) {
  finder = find;
}

bool multiplies_as_packed(Packing packing) {
  return packing == Packing::kFloat32 || kernels::has_tiles() || has_microkernel(packing) ||
         (packing == Packing::kInt8 && int8_by_pairs());
}

const char* product_method(Packing packing) {
  if (packing == Packing::kFloat32) return "tiles of registers";
  if (kernels::has_tiles()) return "tile units";
  if (has_microkernel(packing)) return "microkernel";
  return multiplies_as_packed(packing) ? "pairs of 16-bit numbers" : "float32 on rounded numbers";
}

PackedLinear::Method PackedLinear::method_for(Packing packing) const {
  const bool fits = packing != Packing::kInt8 || inputs_ <= kMaxInt8Inputs;
  if (packing == Packing::kFloat32 || !fits) return Method::kWide;
  if (kernels::has_tiles() && inputs_ * element_bytes() % kernels::kTileStep == 0) {
    return Method::kTiles;
  }
  if (packing == Packing::kInt8 && int8_by_pairs() && inputs_ % 2 == 0 &&
      outputs_ % kernels::kPairColumns == 0) {
    return Method::kPairs;
  }
  const int64_t group = packing == Packing::kInt8 ? 4 : 2;
  return has_microkernel(packing) && inputs_ % group == 0 ? Method::kMicrokernel : Method::kWide;
}

// Writes every weight in the order that the product reads. row(output, wide, narrow) returns the
// weights of an output; the buffers [inputs] may hold them.
template <class T, class Row>
void PackedLinear::lay_out(TorchDtype dtype, const Row& row) {
  // Adjacent inputs of an output, and the columns between them and the next ones.
  constexpr int64_t kGroup = 4 / sizeof(T), kHalfTile = kernels::kTileColumns / 2;
  const bool tiles = method_ == Method::kTiles, whole = tiles || method_ == Method::kWide;
  const int64_t apart = tiles ? kHalfTile : panel_columns_;
  const int64_t columns = whole ? panels_ * panel_columns_ : outputs_;
  weight_ = Array::zeros({columns * inputs_}, dtype);
  T* const all = weight_.mutable_data<T>();
  parallel_tasks(panels_, [&](int64_t begin, int64_t end) {
    std::vector<float> wide(size_t(inputs_), 0);
    std::vector<T> narrow(size_t(inputs_), 0);
    for (int64_t o = begin * panel_columns_; o < std::min(outputs_, end * panel_columns_); ++o) {
      const T* from = row(o, wide.data(), narrow.data());
      const int64_t first = o / apart * apart, width = std::min(apart, columns - first);
      T* to = all + first * inputs_ + (o - first) * kGroup;
      for (int64_t i = 0; i < inputs_; i += kGroup, to += width * kGroup) {
        std::memcpy(to, from + i, 4);
      }
    }
  });
}

PackedLinear::PackedLinear(const Array& weight, const Array& bias, Packing packing)
    : PackedLinear(float_map(weight, bias), {}, packing) {}

PackedLinear::PackedLinear(const StepWeight& map, const Array& gamma, Packing packing)
    : inputs_(map.inputs), outputs_(map.outputs()), packing_(packing) {
  method_ = method_for(packing);
  // The registers of a microkernel hold so many columns, and their sums stay in cache. 96 columns
  // read the rows less often than 64; a last narrow panel would cost more than that gains.
  panel_columns_ = method_ == Method::kWide    ? kernels::wide_columns()
                   : method_ == Method::kTiles ? kernels::kTileColumns
                   : method_ == Method::kPairs ? kernels::kPairColumns
                   : outputs_ % 96 == 0        ? 96
                                               : 64;
  panels_ = divide_up(outputs_, panel_columns_);
  if (map.bias.defined() && !gamma.defined()) bias_ = map.bias.as_float().clone();
  if (method_ == Method::kTiles && map.panelled > 0 && map.type == kernels::WeightType::kBfloat16 &&
      packing == Packing::kBfloat16 && !gamma.defined()) {
    weight_ = map.values;  // laid out as tile units read them
    return;
  }
  const auto row = [&](int64_t o, float* to) -> const float* {
    map.row(o, to);
    for (int64_t i = 0; gamma.defined() && i < inputs_; ++i) to[i] *= gamma.data()[o];
    return to;
  };
  if (packing == Packing::kInt8) {
    Array wide = Array::empty({outputs_, inputs_});
    for (int64_t o = 0; o < outputs_; ++o) row(o, wide.mutable_data() + o * inputs_);
    round_to_int8(wide);
  } else if (packing == Packing::kFloat32) {
    lay_out<float>(TorchDtype::kFloat32,
                   [&](int64_t o, float* wide, float*) { return row(o, wide); });
  } else if (method_ == Method::kWide) {
    lay_out<float>(TorchDtype::kFloat32, [&](int64_t o, float* wide, float* rounded) {
      const float* from = row(o, wide);
      for (int64_t i = 0; i < inputs_; ++i) rounded[i] = from_bfloat16(to_bfloat16(from[i]));
      return rounded;
    });
  } else {
    lay_out<uint16_t>(TorchDtype::kBFloat16, [&](int64_t o, float* wide, uint16_t* narrow) {
      kernels::round_rows(row(o, wide), 1, inputs_, narrow);
      return narrow;
    });
  }
}

// Lays out integers, or the floats they encode if integers are not multiplied here.
void PackedLinear::round_to_int8(const Array& weight) {
  const QuantizedWeight rounded = quantize_int8(weight);
  const auto* values = rounded.values.data<int8_t>();
  const float* scales = rounded.scales.data();
  if (!integers()) {
    return lay_out<float>(TorchDtype::kFloat32, [&](int64_t o, float* wide, const float*) {
      for (int64_t i = 0; i < inputs_; ++i) wide[i] = float(values[o * inputs_ + i]) * scales[o];
      return wide;
    });
  }
  if (method_ == Method::kPairs) {
    lay_out<int16_t>(TorchDtype::kInt16, [&](int64_t o, const float*, int16_t* pairs) {
      std::copy_n(values + o * inputs_, inputs_, pairs);
      return pairs;
    });
  } else {
    lay_out<int8_t>(TorchDtype::kInt8,
                    [&](int64_t o, const float*, const int8_t*) { return values + o * inputs_; });
  }
  column_scale_ = rounded.scales;
  column_sums_ = Array::empty({divide_up(inputs_, kInputStep) + 1, outputs_}, TorchDtype::kInt32);
  auto* sums = column_sums_.mutable_data<int32_t>();
  for (int64_t o = 0; o < outputs_; ++o) {
    int32_t* sum = sums + o;
    *sum = 0;
    for (int64_t i = 0; i < inputs_; ++i) {
      if (i % kInputStep == 0) sum[outputs_] = *sum, sum += outputs_;
      *sum += values[o * inputs_ + i];
    }
  }
}

int64_t PackedLinear::scratch_bytes(int64_t rows) const {
  const bool stored = method_ == Method::kPairs || method_ == Method::kMicrokernel;
  const bool widened = method_ == Method::kWide && packing_ != Packing::kFloat32;
  return (integers() ? aligned(outputs_ * 4) : 0) +
         (stored ? aligned(rows * panel_columns_ * 4) : 0) +
         aligned(rows * inputs_ *
                 (method_ == Method::kPairs ? 2
                  : widened                 ? 4
                                            : 0));
}

// One call of run(): the rows in the form the product wants, and its loops.
class PackedLinear::Run {
 public:
  struct Inputs {
    int64_t first, count;
  };

  Run(const PackedLinear& map, const PackedRows& x, const PackedResult& result, void* scratch,
      Inputs inputs, bool biased)
      : map_(map),
        x_(x),
        result_(result),
        sums_(static_cast<char*>(scratch) + (map.integers() ? aligned(map.outputs_ * 4) : 0)),
        first_input_(inputs.first),
        inputs_(inputs.count),
        biased_(biased && map.bias_.defined()) {
    if (map.integers()) add_up_columns(static_cast<int32_t*>(scratch));
    if (map.method_ == Method::kPairs) {
      widen<uint8_t, int16_t>(static_cast<char*>(sums_) + aligned(x.rows * map.panel_columns_ * 4),
                              [](uint8_t value, int64_t) { return value; });
    } else if (map.method_ != Method::kWide) {
      return;
    } else if (map.packing_ == Packing::kBfloat16) {
      widen<uint16_t, float>(sums_, [](uint16_t bits, int64_t) { return from_bfloat16(bits); });
    } else if (map.packing_ == Packing::kInt8) {
      widen<uint8_t, float>(sums_, [&x](uint8_t value, int64_t r) {
        return x.scale[r] * static_cast<float>(value - x.zero[r]);
      });
    }
  }

  // The panels [first, last) and their epilogue.
  void panels(int64_t first, int64_t last) const {
    if (map_.method_ == Method::kTiles) return tiles(first, last);
    if (map_.method_ == Method::kWide) return wide(first, last);
    for (int64_t p = first; p < last; ++p) panel(p);
  }

  // For all rows at once, because there are no sums to hold in cache.
  void add_panel(int64_t index, float* sums, int64_t stride) const {
    const int64_t first = index * map_.panel_columns_;
    multiply(first, columns_from(index, index + 1), sums + first, stride,
             /*add=*/true);
  }

 private:
  // Columns of the panels [first, last).
  int64_t columns_from(int64_t first, int64_t last) const {
    return std::min(map_.outputs_, last * map_.panel_columns_) - first * map_.panel_columns_;
  }

  void tiles(int64_t first, int64_t last) const {
    const int64_t size = map_.element_bytes();
    kernels::TileProductArgs a;
    a.finish = following(first * kernels::kTileColumns, columns_from(first, last));
    a.x = x_.data;
    a.x_bytes = x_.stride * size;
    a.block_bytes = map_.block_bytes();
    a.weight = map_.weight_.data<char>() + first * a.block_bytes +
               first_input_ * kernels::kTileColumns / 2 * size;
    a.steps = inputs_ * size / kernels::kTileStep;
    a.next = result_.next;
    kernels::tile_product(a);
  }

  void wide(int64_t first, int64_t last) const {
    const int64_t columns = map_.panel_columns_;
    kernels::WideProductArgs a;
    a.finish = following(first * columns, columns_from(first, last));
    a.x = static_cast<const float*>(x_.data);
    a.x_stride = x_.stride;
    a.weight = panel_at<float>(first * columns, columns);
    a.panel_columns = columns;
    a.panel_stride = map_.inputs_ * columns;
    a.inputs = inputs_;
    kernels::wide_product(a);
  }

  void panel(int64_t index) const {
    const int64_t first = index * map_.panel_columns_, columns = columns_from(index, index + 1);
    multiply(first, columns, sums_, columns, /*add=*/false);
    kernels::FinishRowsArgs a = following(first, columns);
    a.sums = sums_;
    a.sums_stride = columns;
    kernels::finish_rows(a);
  }

  // The weights of these inputs.
  void add_up_columns(int32_t* part) {
    const auto* all = map_.column_sums_.data<int32_t>();
    const int64_t outputs = map_.outputs_;
    const int32_t* before = all + first_input_ / kInputStep * outputs;
    const int32_t* after = all + divide_up(first_input_ + inputs_, kInputStep) * outputs;
    column_sum_ = first_input_ == 0 ? after : part;
    if (first_input_ == 0) return;
    for (int64_t i = 0; i < outputs; ++i) part[i] = after[i] - before[i];
  }

  // Replaces the rows by value(number, row).
  template <class From, class To, class Value>
  void widen(void* scratch, const Value& value) {
    auto* const wide = static_cast<To*>(scratch);
    for (int64_t r = 0; r < x_.rows; ++r) {
      const auto* from = static_cast<const From*>(x_.data) + r * x_.stride;
      for (int64_t i = 0; i < inputs_; ++i) wide[r * inputs_ + i] = value(from[i], r);
    }
    x_.data = wide;
    x_.stride = inputs_;
  }

  // A panel of the weight, from the first input on.
  template <class T>
  const T* panel_at(int64_t first, int64_t columns) const {
    return map_.weight_.data<T>() + first * map_.inputs_ + first_input_ * columns;
  }

  void multiply(int64_t first, int64_t columns, void* sums, int64_t stride, bool add) const {
    const kernels::WorkTimer timer(kernels::Work::kProduct);
    if (map_.method_ == Method::kPairs) {
      return kernels::pair_product({x_.rows, inputs_, static_cast<const int16_t*>(x_.data),
                                    x_.stride, panel_at<int16_t>(first, columns),
                                    static_cast<int32_t*>(sums)});
    }
    const bool half = map_.packing_ == Packing::kBfloat16;
    const void* weight = half ? static_cast<const void*>(panel_at<uint16_t>(first, columns))
                              : panel_at<int8_t>(first, columns);
    const auto product = half ? microkernels().bfloat16 : microkernels().int8;
    product({x_.rows, columns, inputs_, x_.data, x_.stride, weight, sums, stride, add});
  }

  // The epilogue for the sums of these columns.
  kernels::FinishRowsArgs following(int64_t first, int64_t columns) const {
    kernels::FinishRowsArgs a;
    a.rows = x_.rows;
    a.columns = columns;
    if (map_.integers()) {
      a.row_scale = x_.scale;
      a.row_zero = x_.zero;
      a.column_scale = map_.column_scale_.data() + first;
      a.column_sum = column_sum_ + first;
    }
    if (biased_) a.bias = map_.bias_.data() + first;
    a.activation = result_.activation;
    a.add = result_.add;
    if (result_.gamma != nullptr) a.gamma = result_.gamma + first;
    const int64_t size = result_.dtype == kernels::DType::kBfloat16 ? 2 : 4;
    const int64_t column = first - result_.first_column;
    a.out = static_cast<char*>(result_.data) + column * size;
    a.out_stride = result_.stride;
    a.out_dtype = result_.dtype;
    return a;
  }

  const PackedLinear& map_;
  PackedRows x_;
  const PackedResult& result_;
  void* sums_;
  const int32_t* column_sum_ = nullptr;  // of the weights of these inputs, integers
  const int64_t first_input_, inputs_;
  const bool biased_;
};

void PackedLinear::run(const PackedRows& x, const PackedResult& result, void* scratch,
                       int64_t first, int64_t last) const {
  if (x.rows == 0 || first >= last) return;
  Run(*this, x, result, scratch, {0, inputs_}, /*biased=*/true).panels(first, last);
}

void PackedLinear::accumulate(const PackedRows& x, float* sums, int64_t stride, int64_t first,
                              int64_t count, void* scratch, const kernels::FetchAhead& next) const {
  if (x.rows == 0 || count == 0) return;
  const PackedResult onto{.data = sums, .stride = stride, .add = true, .next = next};
  const Run run(*this, x, onto, scratch, {first, count}, /*biased=*/false);
  // Integer sums and sums that are never stored are added when they are finished.
  if (method_ != Method::kMicrokernel || integers()) return run.panels(0, panels_);
  for (int64_t p = 0; p < panels_; ++p) run.add_panel(p, sums, stride);
}

kernels::FetchAhead PackedLinear::ahead(int64_t first, int64_t last) const {
  if (method_ != Method::kTiles) return {};
  return {weight_.data<char>() + first * block_bytes(),
          (std::min(last, panels_) - first) * block_bytes(), 0, 1};
}

kernels::FetchAhead PackedLinear::ahead_of_inputs(int64_t first, int64_t count) const {
  const kernels::FetchAhead all = ahead();
  const int64_t input = kernels::kTileColumns / 2 * element_bytes();
  if (method_ != Method::kTiles || count == inputs_) return all;
  return {all.data + first * input, count * input, block_bytes() / 2, 2 * panels_};
}

void PackedLinear::release() {
  if (microkernels().release != nullptr) microkernels().release();
}

PackedLinear packed_onto_rows(const StepWeight& map, const Array& gamma, Packing packing,
                              Array& shift) {
  if (map.bias.defined()) {
    shift = map.bias.as_float().clone();
    for (int64_t o = 0; o < map.outputs(); ++o) shift.mutable_data()[o] *= gamma.data()[o];
  }
  return {map, gamma, packing};
}

}  // namespace tost
