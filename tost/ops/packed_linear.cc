#include "tost/ops/packed_linear.h"

#include <ATen/native/CPUBlas.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/engine/quantized_weight.h"
#include "tost/kernels/products/panel_rows.h"
#include "tost/kernels/products/tile_rows.h"
#include "tost/kernels/work_times.h"
#include "tost/ops/arrays.h"
#include "tost/ops/product_support.h"

namespace tost {
namespace {

namespace blas = at::native::cpublas;

// The number of columns of a panel, for which registers and cache hold the sums. A panel of 96
// columns reads the rows less often than one of 64, but a narrow last panel would cost more.
int64_t columns_of_panel(Packing packing, int64_t outputs) {
  if (packing == Packing::kFloat32) return kernels::kPanelColumns;
  return outputs % 96 == 0 ? 96 : 64;
}
// The largest number of rows of a tile, for which sums stay in cache.
constexpr int64_t kTileRows = 400;
// The largest number of inputs whose sum cannot exceed int32.
constexpr int64_t kMaxInt8Inputs = 0x7fffffff / (255 * 127);

// The number of adjacent inputs in the layout of the matrix units.
int64_t group_of(Packing packing) {
  return packing == Packing::kFloat32 ? 1 : packing == Packing::kBfloat16 ? 2 : 4;
}
at::ScalarType type_of(Packing packing) {
  return packing == Packing::kFloat32    ? at::kFloat
         : packing == Packing::kBfloat16 ? at::kBFloat16
                                         : at::kChar;
}

// Converts [out, in] to panels [in / group, columns, group], one after the other.
at::Tensor pack_panels(const at::Tensor& weight, int64_t columns, int64_t group) {
  const int64_t outputs = weight.size(0), inputs = weight.size(1);
  auto packed = at::empty({weight.numel()}, weight.options());
  for (int64_t first = 0; first < outputs; first += columns) {
    const int64_t count = std::min(columns, outputs - first);
    packed.narrow(0, first * inputs, count * inputs)
        .view({inputs / group, count, group})
        .copy_(weight.narrow(0, first, count).view({count, inputs / group, group}).transpose(0, 1));
  }
  return packed;
}

// Converts a weight [out, in] to the layout that tile_product() reads.
at::Tensor pack_blocks(const at::Tensor& weight, int64_t group) {
  constexpr int64_t kHalf = kernels::kTileColumns / 2;
  const int64_t outputs = weight.size(0), inputs = weight.size(1);
  const int64_t blocks = divide_up(outputs, kernels::kTileColumns), step = kHalf * group;
  return at::constant_pad_nd(weight, {0, 0, 0, blocks * kernels::kTileColumns - outputs})
      .view({blocks, 2, kHalf, inputs / step, kHalf, group})
      .permute({0, 3, 1, 4, 2, 5})
      .contiguous();
}

}  // namespace

PackedLinear::PackedLinear(const at::Tensor& weight, const at::Tensor& bias, Packing packing)
    : packing_(packing) {
  if (weight.dim() != 2 || !weight.is_floating_point() || !weight.is_cpu() || weight.numel() == 0) {
    fail_usage("A packed linear map is made from a floating matrix [out, in] on the CPU; got ",
               weight.toString(), " of ", weight.dim(), " dimensions and ", weight.numel(),
               " values.");
  }
  outputs_ = weight.size(0);
  inputs_ = weight.size(1);
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != outputs_)) {
    fail_usage("The bias of a packed linear map with ", outputs_, " outputs has ", bias.numel(),
               " values.");
  }
  const bool fits = packing != Packing::kInt8 || inputs_ <= kMaxInt8Inputs;
  pairs_ = packing == Packing::kInt8 && fits && inputs_ % 2 == 0 &&
           outputs_ % kernels::kPairColumns == 0 && int8_by_pairs();
  const int64_t group = pairs_ ? 2 : group_of(packing);
  native_ = pairs_ || (fits && product_support().of(packing) && inputs_ % group == 0);
  tiles_ = native_ && packing != Packing::kFloat32 &&
           inputs_ * element_bytes() % kernels::kTileStep == 0 && kernels::has_tiles();
  fused_ = packing == Packing::kFloat32 && inputs_ % kernels::kPanelInputs == 0 &&
           kernels::has_panel_product();
  panel_columns_ = tiles_   ? kernels::kTileColumns
                   : pairs_ ? kernels::kPairColumns
                            : columns_of_panel(packing, outputs_);
  panels_ = divide_up(outputs_, panel_columns_);
  auto rounded = weight.detach().to(at::kFloat).contiguous();
  if (packing == Packing::kInt8) {
    round_to_int8(rounded);
  } else if (packing == Packing::kBfloat16) {
    rounded = rounded.to(at::kBFloat16);
  }
  rounded = rounded.to(pairs_ ? at::kShort : native_ ? type_of(packing) : at::kFloat);
  weight_ = tiles_ ? pack_blocks(rounded, group)
                   : pack_panels(rounded, panel_columns_, native_ ? group : 1);
  if (bias.defined()) bias_ = bias.detach().to(at::kFloat).clone();
}

// Returns integers, or their float values if this CPU does not multiply integers.
void PackedLinear::round_to_int8(at::Tensor& weight) {
  const QuantizedWeight rounded = quantize_int8(array_of(weight));
  column_scale_ = tensor_of(rounded.scales);
  if (!native_) {
    weight = tensor_of(dequantize(rounded));
    return;
  }
  weight = tensor_of(rounded.values);
  column_sums_ = at::empty({divide_up(inputs_, kInputStep) + 1, outputs_}, at::kInt);
  const auto* values = weight.const_data_ptr<int8_t>();
  auto* sums = column_sums_.mutable_data_ptr<int32_t>();
  for (int64_t o = 0; o < outputs_; ++o) {
    int32_t* sum = sums + o;
    *sum = 0;
    for (int64_t i = 0; i < inputs_; ++i) {
      if (i % kInputStep == 0) sum[outputs_] = *sum, sum += outputs_;
      *sum += values[o * inputs_ + i];
    }
  }
}

int64_t PackedLinear::element_bytes() const {
  return packing_ == Packing::kInt8 ? 1 : 2;
}

int64_t PackedLinear::block_bytes() const {
  return kernels::kTileColumns * inputs_ * element_bytes();
}

int64_t PackedLinear::bytes() const {
  return weight_.defined() ? static_cast<int64_t>(weight_.nbytes()) : 0;
}

int64_t PackedLinear::scratch_bytes(int64_t rows) const {
  const int64_t part_sums = packing_ == Packing::kInt8 ? aligned(outputs_ * 4) : 0;
  if (tiles_) return part_sums;
  const int64_t sums = std::min(rows, kTileRows) * panel_columns_ * 4;
  const int64_t widened = pairs_ ? 2 : !native_ && packing_ != Packing::kFloat32 ? 4 : 0;
  return part_sums + aligned(sums) + aligned(rows * inputs_ * widened);
}

// One call of run(): converts the rows to the form of the product, and loops over tiles and panels.
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
        sums_(scratch),
        first_input_(inputs.first),
        inputs_(inputs.count),
        biased_(biased && map.bias_.defined()) {
    const bool integers = map.native_ && map.packing_ == Packing::kInt8;
    if (map.packing_ == Packing::kInt8) {
      sums_ = static_cast<char*>(scratch) + aligned(map.outputs_ * 4);
    }
    if (integers) add_up_columns(static_cast<int32_t*>(scratch));
    if (map.packing_ == Packing::kFloat32 || (map.native_ && !map.pairs_)) return;
    const int64_t sums = std::min(x.rows, kTileRows) * map.panel_columns_ * 4;
    void* wide = static_cast<char*>(sums_) + aligned(sums);
    map.pairs_                           ? widen<uint8_t>(static_cast<int16_t*>(wide))
    : map.packing_ == Packing::kBfloat16 ? widen<at::BFloat16>(static_cast<float*>(wide))
                                         : widen_scaled(static_cast<float*>(wide));
    x_.data = wide;
    x_.stride = inputs_;
  }

  // Computes the panels [first, last) and their epilogue.
  void panels(int64_t first, int64_t last) const {
    if (map_.tiles_) return tiles(first, last);
    const int64_t whole = fused() ? std::min(last, map_.outputs_ / map_.panel_columns_) : first;
    if (whole > first) fused_panels(first, whole);
    for (int64_t p = std::max(first, whole); p < last; ++p) panel(p);
  }

  // Whether panel_product() computes whole panels.
  bool fused() const {
    return map_.fused_ && x_.rows >= kernels::kFewestPanelRows &&
           inputs_ % kernels::kPanelInputs == 0;
  }

  // Computes all rows at once, because there are no sums to hold in cache.
  void add_panel(int64_t index, float* sums, int64_t stride) const {
    const int64_t first = index * map_.panel_columns_;
    const int64_t columns = std::min(map_.panel_columns_, map_.outputs_ - first);
    multiply(0, x_.rows, first, columns, sums + first, stride, /*add=*/true);
  }

 private:
  void tiles(int64_t first, int64_t last) const {
    const int64_t size = map_.element_bytes(), column = first * kernels::kTileColumns;
    kernels::TileProductArgs a;
    a.finish = following(0, x_.rows, column,
                         std::min(map_.outputs_, last * kernels::kTileColumns) - column);
    a.x = x_.data;
    a.x_bytes = x_.stride * size;
    a.block_bytes = map_.block_bytes();
    a.weight = static_cast<const char*>(map_.weight_.const_data_ptr()) + first * a.block_bytes +
               first_input_ * kernels::kTileColumns * size;
    a.steps = inputs_ * size / kernels::kTileStep;
    a.next = result_.next;
    kernels::tile_product(a);
  }

  void fused_panels(int64_t first, int64_t last) const {
    const int64_t columns = map_.panel_columns_;
    kernels::PanelProductArgs a;
    a.finish = following(0, x_.rows, first * columns, (last - first) * columns);
    a.x = static_cast<const float*>(x_.data);
    a.x_stride = x_.stride;
    a.weight = panel_at<float>(first * columns, columns);
    a.panel_stride = map_.inputs_ * columns;
    a.inputs = inputs_;
    kernels::panel_product(a);
  }

  void panel(int64_t index) const {
    const int64_t first = index * map_.panel_columns_;
    const int64_t columns = std::min(map_.panel_columns_, map_.outputs_ - first);
    const int64_t tiles = divide_up(x_.rows, kTileRows);
    const int64_t even = divide_up(divide_up(x_.rows, std::max<int64_t>(1, tiles)), 16) * 16;
    for (int64_t r = 0; r < x_.rows; r += even) {
      const int64_t rows = std::min(even, x_.rows - r);
      multiply(r, rows, first, columns, sums_, columns, /*add=*/false);
      finish(r, rows, first, columns);
    }
  }

  // Sums, for each output, the weights of this call's inputs.
  void add_up_columns(int32_t* part) {
    const auto* all = map_.column_sums_.const_data_ptr<int32_t>();
    const int64_t outputs = map_.outputs_;
    const int32_t* before = all + first_input_ / kInputStep * outputs;
    const int32_t* after = all + divide_up(first_input_ + inputs_, kInputStep) * outputs;
    column_sum_ = first_input_ == 0 ? after : part;
    if (first_input_ == 0) return;
    for (int64_t i = 0; i < outputs; ++i) part[i] = after[i] - before[i];
  }

  void widen_scaled(float* wide) const {
    for (int64_t r = 0; r < x_.rows; ++r) {
      const auto* from = static_cast<const uint8_t*>(x_.data) + r * x_.stride;
      float* to = wide + r * inputs_;
      for (int64_t i = 0; i < inputs_; ++i) {
        to[i] = x_.scale[r] * static_cast<float>(from[i] - x_.zero[r]);
      }
    }
  }
  template <class From, class To>
  void widen(To* wide) const {
    for (int64_t r = 0; r < x_.rows; ++r) {
      const auto* from = static_cast<const From*>(x_.data) + r * x_.stride;
      for (int64_t i = 0; i < inputs_; ++i) wide[r * inputs_ + i] = from[i];
    }
  }

  // The weights of one panel, from the first input on.
  template <class T>
  const T* panel_at(int64_t first, int64_t columns) const {
    return static_cast<const T*>(map_.weight_.const_data_ptr()) + first * map_.inputs_ +
           first_input_ * columns;
  }

  template <class A, class B, class C>
  void microkernel(int64_t r, int64_t rows, int64_t first, int64_t columns, void* sums,
                   int64_t stride, bool add) const {
    constexpr bool kVnni = sizeof(A) < 4;
    blas::brgemm(rows, columns, inputs_, x_.stride, columns, stride, add,
                 static_cast<const A*>(x_.data) + r * x_.stride, panel_at<B>(first, columns),
                 static_cast<C*>(sums), kVnni);
  }

  void multiply(int64_t r, int64_t rows, int64_t first, int64_t columns, void* sums, int64_t stride,
                bool add) const {
    const kernels::WorkTimer timer(kernels::Work::kProduct);
    if (map_.pairs_) {
      return kernels::pair_product(
          {rows, inputs_, static_cast<const int16_t*>(x_.data) + r * x_.stride, x_.stride,
           panel_at<int16_t>(first, columns), static_cast<int32_t*>(sums)});
    }
    if (map_.native_ && map_.packing_ == Packing::kBfloat16) {
      return microkernel<at::BFloat16, at::BFloat16, float>(r, rows, first, columns, sums, stride,
                                                            add);
    }
    if (map_.native_ && map_.packing_ == Packing::kInt8) {
      return microkernel<unsigned char, signed char, int32_t>(r, rows, first, columns, sums, stride,
                                                              add);
    }
    if (product_support().float32) {
      return microkernel<float, float, float>(r, rows, first, columns, sums, stride, add);
    }
    general_product(r, rows, first, columns, sums, stride, add);
  }

  void general_product(int64_t r, int64_t rows, int64_t first, int64_t columns, void* sums,
                       int64_t stride, bool add) const {
    const c10::InferenceMode no_grad;
    auto* x = const_cast<float*>(static_cast<const float*>(x_.data)) + r * x_.stride;
    auto* panel = const_cast<float*>(panel_at<float>(first, columns));
    auto out = at::from_blob(sums, {rows, columns}, {stride, 1}, at::kFloat);
    at::addmm_out(out, out, at::from_blob(x, {rows, inputs_}, {x_.stride, 1}, at::kFloat),
                  at::from_blob(panel, {inputs_, columns}, at::kFloat), /*beta=*/add ? 1 : 0);
  }

  void finish(int64_t r, int64_t rows, int64_t first, int64_t columns) const {
    kernels::FinishRowsArgs a = following(r, rows, first, columns);
    a.sums = sums_;
    a.sums_stride = columns;
    kernels::finish_rows(a);
  }

  // Runs the epilogue on the sums of a block of rows and columns.
  kernels::FinishRowsArgs following(int64_t r, int64_t rows, int64_t first, int64_t columns) const {
    kernels::FinishRowsArgs a;
    a.rows = rows;
    a.columns = columns;
    if (map_.native_ && map_.packing_ == Packing::kInt8) {
      a.row_scale = x_.scale + r;
      a.row_zero = x_.zero + r;
      a.column_scale = map_.column_scale_.const_data_ptr<float>() + first;
      a.column_sum = column_sum_ + first;
    }
    if (biased_) a.bias = map_.bias_.const_data_ptr<float>() + first;
    a.activation = result_.activation;
    a.add = result_.add;
    if (result_.gamma != nullptr) a.gamma = result_.gamma + first;
    const int64_t size = result_.dtype == kernels::DType::kBfloat16 ? 2 : 4;
    const int64_t column = first - result_.first_column;
    a.out = static_cast<char*>(result_.data) + (r * result_.stride + column) * size;
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
  // Integer sums, and sums that are never stored, are added to `sums` by the epilogue.
  if (tiles_ || (native_ && packing_ == Packing::kInt8) || run.fused()) {
    return run.panels(0, panels_);
  }
  for (int64_t p = 0; p < panels_; ++p) run.add_panel(p, sums, stride);
}

kernels::FetchAhead PackedLinear::ahead(int64_t first, int64_t last) const {
  if (!tiles_) return {};
  return {static_cast<const char*>(weight_.const_data_ptr()) + first * block_bytes(),
          (std::min(last, panels_) - first) * block_bytes(), 0, 1};
}

kernels::FetchAhead PackedLinear::ahead_of_inputs(int64_t first, int64_t count) const {
  const kernels::FetchAhead all = ahead();
  const int64_t input = kernels::kTileColumns * element_bytes();
  if (!tiles_ || count == inputs_) return all;
  return {all.data + first * input, count * input, block_bytes(), panels_};
}

void PackedLinear::release() {
  const auto& support = product_support();
  if (support.bfloat16 || support.int8) blas::brgemm_release();
}

}  // namespace tost
