#include "tost/engine/packed_linear.h"

#include <cstring>
#include <vector>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/engine/threads.h"
#include "tost/kernels/products/tile_rows.h"

namespace tost {
namespace {

// Sums of more inputs could exceed int32.
constexpr int64_t kMaxInt8Inputs = 0x7fffffff / (255 * 127);

using kernels::Numbers;

// The numbers that a packing multiplies where the CPU can.
Numbers numbers_of(Packing packing) {
  if (packing == Packing::kFloat32) return Numbers::kFloat32;
  if (packing == Packing::kBfloat16) return Numbers::kBfloat16;
  return kernels::multiplies(Numbers::kInt16) ? Numbers::kInt16 : Numbers::kInt8;
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

bool multiplies_as_packed(Packing packing) {
  return kernels::multiplies(numbers_of(packing));
}

const char* product_method(Packing packing) {
  if (packing == Packing::kFloat32) return "tiles of registers";
  if (!multiplies_as_packed(packing)) return "float32 on rounded numbers";
  if (kernels::has_tiles()) return "tile units";
  if (packing == Packing::kBfloat16) return "AVX512_BF16";
  return numbers_of(packing) == Numbers::kInt16 ? "pairs of 16-bit numbers" : "AVX512_VNNI";
}

Numbers PackedLinear::numbers_for(Packing packing) const {
  const Numbers numbers = numbers_of(packing);
  const bool fits = packing != Packing::kInt8 || inputs_ <= kMaxInt8Inputs;
  return fits && inputs_ % kernels::word_inputs(numbers) == 0 && multiplies_as_packed(packing)
             ? numbers
             : Numbers::kFloat32;
}

// Writes every weight in the order that the product reads. row(output, wide, narrow) returns the
// weights of an output; the buffers [inputs] may hold them.
template <class T, class Row>
void PackedLinear::lay_out(TorchDtype dtype, const Row& row) {
  constexpr int64_t kGroup = 4 / sizeof(T);  // adjacent inputs of an output
  const int64_t apart = groups() ? kernels::kGroupColumns : panel_columns_;
  const int64_t unit = groups() ? kernels::kTileColumns : panel_columns_;
  const int64_t columns = divide_up(outputs_, unit) * unit;
  weight_ = Array::zeros({columns * inputs_}, dtype);
  T* const all = weight_.mutable_data<T>();
  parallel_tasks(panels_, [&](int64_t begin, int64_t end) {
    std::vector<float> wide(size_t(inputs_), 0);
    std::vector<T> narrow(size_t(inputs_), 0);
    for (int64_t o = begin * panel_columns_; o < std::min(outputs_, end * panel_columns_); ++o) {
      const T* from = row(o, wide.data(), narrow.data());
      const int64_t first = o / apart * apart;
      T* to = all + first * inputs_ + (o - first) * kGroup;
      for (int64_t i = 0; i < inputs_; i += kGroup, to += apart * kGroup) {
        std::memcpy(to, from + i, 4);
      }
    }
  });
}

PackedLinear::PackedLinear(const Array& weight, const Array& bias, Packing packing)
    : PackedLinear(float_map(weight, bias), {}, packing) {}

PackedLinear::PackedLinear(const StepWeight& map, const Array& gamma, Packing packing)
    : inputs_(map.inputs), outputs_(map.outputs()), packing_(packing) {
  numbers_ = numbers_for(packing);
  panel_columns_ = kernels::shared_columns(numbers_);
  panels_ = divide_up(outputs_, panel_columns_);
  if (map.bias.defined() && !gamma.defined()) bias_ = map.bias.as_float().clone();
  if (numbers_ == Numbers::kBfloat16 && map.panelled > 0 &&
      map.type == kernels::WeightType::kBfloat16 && !gamma.defined()) {
    weight_ = map.values;  // laid out alike
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
  } else if (!groups()) {
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
  if (numbers_ == Numbers::kInt16) {
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
  const bool widened = numbers_ == Numbers::kInt16 || (!groups() && packing_ != Packing::kFloat32);
  return (integers() ? aligned(outputs_ * 4) : 0) +
         (widened ? aligned(rows * inputs_ * (groups() ? 2 : 4)) : 0);
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
        first_input_(inputs.first),
        inputs_(inputs.count),
        biased_(biased && map.bias_.defined()) {
    void* const wide =
        static_cast<char*>(scratch) + (map.integers() ? aligned(map.outputs_ * 4) : 0);
    if (map.integers()) add_up_columns(static_cast<int32_t*>(scratch));
    if (map.numbers_ == Numbers::kInt16) {
      widen<uint8_t, int16_t>(wide, [](uint8_t value, int64_t) { return value; });
    } else if (!map.groups() && map.packing_ == Packing::kBfloat16) {
      widen<uint16_t, float>(wide, [](uint16_t bits, int64_t) { return from_bfloat16(bits); });
    } else if (!map.groups() && map.packing_ == Packing::kInt8) {
      widen<uint8_t, float>(wide, [&x](uint8_t value, int64_t r) {
        return x.scale[r] * static_cast<float>(value - x.zero[r]);
      });
    }
  }

  // The panels [first, last) and their epilogue.
  void panels(int64_t first, int64_t last) const {
    const int64_t column = first * map_.panel_columns_;
    const int64_t words = map_.words(), group = kernels::word_inputs(map_.numbers_);
    kernels::ProductArgs a;
    a.finish = following(column, std::min(map_.outputs_, last * map_.panel_columns_) - column);
    a.numbers = map_.numbers_;
    a.inputs = inputs_ / group;
    a.x = x_.data;
    a.x_stride = x_.stride / group;
    a.panel_columns = map_.groups() ? kernels::kGroupColumns : map_.panel_columns_;
    a.panel_stride = words * a.panel_columns;
    a.weight =
        map_.weight_.data<char>() + 4 * (column * words + first_input_ / group * a.panel_columns);
    a.next = result_.next;
    kernels::product(a);
  }

 private:
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
  Run(*this, x, onto, scratch, {first, count}, /*biased=*/false).panels(0, panels_);
}

kernels::FetchAhead PackedLinear::ahead(int64_t first, int64_t last) const {
  if (!groups() || !kernels::has_tiles()) return {};
  const int64_t column_bytes = words() * 4, columns = std::min(last, panels_) - first;
  return {weight_.data<char>() + first * panel_columns_ * column_bytes,
          columns * panel_columns_ * column_bytes, 0, 1};
}

kernels::FetchAhead PackedLinear::ahead_of_inputs(int64_t first, int64_t count) const {
  const kernels::FetchAhead all = ahead();
  if (all.data == nullptr || count == inputs_) return all;
  const int64_t panel = kernels::kGroupColumns * words() * 4, input = panel / inputs_;
  return {all.data + first * input, count * input, panel, 2 * panels_};
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
