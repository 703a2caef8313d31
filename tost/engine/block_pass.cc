#include "tost/engine/block_pass.h"

#include <algorithm>

#include "tost/engine/threads.h"

namespace tost {
namespace {

constexpr int64_t kHiddenColumns = 384;  // of an MLP, computed and used at a time

}  // namespace

const ThreadScratch& BlockPass::scratch() const {
  return scratch_[static_cast<size_t>(thread_number())];
}

kernels::NormRowsArgs BlockPass::norm_args(const NormWeight& norm, const float* shift,
                                           Rows rows) const {
  kernels::NormRowsArgs args = norm.args(stream(rows.first), rows.count, nullptr);
  args.shift = shift;
  args.shifted = stream(rows.first);
  return args;
}

void BlockPass::add_rows(const float* y, const Array& gamma, Rows rows) const {
  kernels::FinishRowsArgs args;
  args.rows = rows.count;
  args.columns = args.sums_stride = args.out_stride = dim_;
  args.sums = y;
  args.add = true;
  args.gamma = gamma.data();
  args.out = stream(rows.first);
  kernels::finish_rows(args);
}

void BlockPass::norm(const NormWeight& norm, const float* shift, Rows rows, bool as_float) const {
  const ThreadScratch& local = scratch();
  const bool bytes = !as_float && products_ == Packing::kInt8;
  kernels::NormRowsArgs args = norm_args(norm, shift, rows);
  args.y = local.normed;
  args.y_type = bytes                 ? kernels::RowType::kUint8
                : as_float || !half() ? kernels::RowType::kFloat32
                                      : kernels::RowType::kBfloat16;
  args.scale = local.scale;
  args.zero = local.zero;
  kernels::norm_rows(args);
}

PackedRows BlockPass::normed_rows(const NormWeight& weights, const float* shift, Rows rows) const {
  norm(weights, shift, rows, /*as_float=*/false);
  const ThreadScratch& local = scratch();
  if (products_ == Packing::kInt8) {
    return {rows.count, local.normed, dim_, local.scale, local.zero};
  }
  return {.rows = rows.count, .data = local.normed, .stride = dim_};
}

// Converts stored tokens to the input form of a product.
PackedRows BlockPass::stored_rows(const void* data, int64_t width, int64_t count,
                                  Packing packing) const {
  if (packing != Packing::kInt8) return {.rows = count, .data = data, .stride = width};
  const ThreadScratch& local = scratch();
  float* scale = local.scale + count;
  int32_t* zero = local.zero + count;
  kernels::quantize_rows({count, width, data, width, dtype(), local.bytes, width, scale, zero});
  return {count, local.bytes, width, scale, zero};
}

void BlockPass::front(const TokenBlockWeights& block, const float* shift, Rows rows,
                      const kernels::FetchAhead& next) const {
  if (block.mixer == EngineMixer::kModule) return;
  const PackedRows x = normed_rows(block.norm1, shift, rows);
  void* to = at(rows_.projected, rows.first, dim_);
  block.in.run(x, {.data = to, .stride = dim_, .dtype = dtype(), .next = next}, scratch().product);
}

void BlockPass::back(const TokenBlockWeights& block, Rows rows,
                     const kernels::FetchAhead& next) const {
  if (block.mixer != EngineMixer::kModule) {
    void* from = block.mixer == EngineMixer::kNone ? rows_.projected : rows_.mixed;
    const PackedRows y =
        stored_rows(at(from, rows.first, dim_), dim_, rows.count, block.out.packing());
    block.out.accumulate(y, stream(rows.first), dim_, 0, dim_, scratch().product,
                         block.fc1.ahead(0, block.fc1.panels_within(kHiddenColumns)));
  }
  mlp(block, normed_rows(block.norm2, block.out_shift.data(), rows), rows, next);
}

// Computes a part of the hidden columns at a time, so that it stays in the L2 cache.
void BlockPass::mlp(const TokenBlockWeights& block, const PackedRows& x, Rows rows,
                    const kernels::FetchAhead& next) const {
  const ThreadScratch& local = scratch();
  const int64_t panels = block.fc1.panels(), columns = block.fc1.panel_columns();
  const int64_t at_once = block.fc1.panels_within(kHiddenColumns);
  for (int64_t p = 0; p < panels; p += at_once) {
    const int64_t last = std::min(panels, p + at_once);
    const int64_t first = p * columns;
    const int64_t count = std::min(block.fc1.outputs(), last * columns) - first;
    block.fc1.run(x,
                  {.data = local.hidden,
                   .stride = count,
                   .first_column = first,
                   .dtype = dtype(),
                   .activation = kernels::Activation::kGelu,
                   .next = block.fc2.ahead_of_inputs(first, count)},
                  local.product, p, last);
    block.fc2.accumulate(stored_rows(local.hidden, count, rows.count, block.fc2.packing()),
                         stream(rows.first), dim_, first, count, local.product,
                         last < panels ? block.fc1.ahead(last, last + at_once) : next);
  }
}

namespace {

StepWeight wide_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                    bool bias, Packing packing) {
  StepWeight map = source.map(name, out, in, bias, kernels::WeightType::kFloat32);
  if (packing == Packing::kInt8) check_roundable(map.values, name + ".weight");
  return map;
}

}  // namespace

PackedLinear packed_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                        Packing packing, bool bias) {
  const StepWeight map = wide_map(source, name, out, in, bias, packing);
  return {map.values, map.bias, packing};
}

TokenBlockWeights token_block_weights(WeightSource& source, const std::string& name,
                                      const BlockShape& shape, EngineMixer mixer, Packing packing) {
  const int64_t dim = shape.dim;
  TokenBlockWeights weights;
  weights.norm1 = source.norm(name + "norm1", dim);
  weights.norm2 = source.norm(name + "norm2", dim);
  weights.gamma1 = source.values(name + "gamma1", {dim}).clone();
  weights.gamma2 = source.values(name + "gamma2", {dim}).clone();
  weights.fc1 = packed_map(source, name + "mlp.fc1", shape.hidden, dim, packing);
  const StepWeight fc2 = wide_map(source, name + "mlp.fc2", dim, shape.hidden, true, packing);
  weights.fc2 = packed_onto_rows(fc2.values, fc2.bias, weights.gamma2, packing, weights.fc2_shift);
  weights.mixer = mixer;
  if (mixer == EngineMixer::kModule) return weights;
  const StepWeight in = wide_map(source, name + "attn.qkv", dim, dim, shape.qkv_bias, packing);
  weights.in = {in.values, in.bias, packing};
  const StepWeight out = wide_map(source, name + "attn.to_out.0", dim, dim, true, packing);
  weights.out = packed_onto_rows(out.values, out.bias, weights.gamma1, packing, weights.out_shift);
  if (mixer == EngineMixer::kTssa) {
    weights.temp = source.values(name + "attn.temp", {shape.heads, 1}).clone();
  }
  return weights;
}

}  // namespace tost
