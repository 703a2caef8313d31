#include "tost/infer/block_pass.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace tost {
namespace {

constexpr int64_t kHiddenColumns = 384;  // of an MLP, computed and used at a time

}  // namespace

const ThreadScratch& BlockPass::scratch() const {
  return scratch_[static_cast<size_t>(at::get_thread_num())];
}

void BlockPass::norm(const NormWeights& norm, const float* shift, Rows rows, bool as_float) const {
  const ThreadScratch& own = scratch();
  const bool bytes = !as_float && products_ == Packing::kInt8;
  kernels::NormRowsArgs args;
  args.rows = rows.count;
  args.width = dim_;
  args.x = stream(rows.first);
  args.x_stride = dim_;
  args.weight = data(norm.weight);
  args.bias = data(norm.bias);
  args.shift = shift;
  args.y = bytes ? own.bytes : own.normed;
  args.y_stride = dim_;
  args.y_type = bytes                 ? kernels::RowType::kUint8
                : as_float || !half() ? kernels::RowType::kFloat32
                                      : kernels::RowType::kBfloat16;
  args.scale = own.scale;
  args.zero = own.zero;
  kernels::norm_rows(args);
}

PackedRows BlockPass::normed_rows(const NormWeights& weights, const float* shift, Rows rows) const {
  norm(weights, shift, rows, /*as_float=*/false);
  const ThreadScratch& own = scratch();
  if (products_ == Packing::kInt8) {
    return {rows.count, own.bytes, dim_, own.scale, own.zero};
  }
  return {.rows = rows.count, .data = own.normed, .stride = dim_};
}

// Stored tokens as a product wants them.
PackedRows BlockPass::stored_rows(const void* data, int64_t width, int64_t count,
                                  Packing packing) const {
  if (packing != Packing::kInt8) return {.rows = count, .data = data, .stride = width};
  const ThreadScratch& own = scratch();
  kernels::quantize_rows(
      {count, width, data, width, dtype(), own.bytes, width, own.scale, own.zero});
  return {count, own.bytes, width, own.scale, own.zero};
}

void BlockPass::front(const TokenBlockWeights& block, const float* shift, Rows rows) const {
  if (block.mixer == EngineMixer::kModule) return;
  const PackedRows x = normed_rows(block.norm1, shift, rows);
  void* to = at(rows_.projected, rows.first, dim_);
  block.in.run(x, {.data = to, .stride = dim_, .dtype = dtype()}, scratch().product);
}

void BlockPass::back(const TokenBlockWeights& block, Rows rows) const {
  const ThreadScratch& own = scratch();
  const bool int8 = block.fc1.packing() == Packing::kInt8;
  if (block.mixer != EngineMixer::kModule) {
    void* from = block.mixer == EngineMixer::kNone ? rows_.projected : rows_.mixed;
    const PackedRows y =
        stored_rows(at(from, rows.first, dim_), dim_, rows.count, block.out.packing());
    if (int8) {
      const PackedResult residual{
          .data = stream(rows.first), .stride = dim_, .add = true, .gamma = data(block.gamma1)};
      block.out.run(y, residual, own.product);
    } else {
      block.out.accumulate(y, stream(rows.first), dim_, 0, dim_, own.product);
    }
  }
  const PackedRows x = normed_rows(block.norm2, data(block.out_shift), rows);
  int8 ? mlp_in_int8(block, x, rows) : mlp_onto_stream(block, x, rows);
}

// A part of the hidden columns at a time, as wide as it stays in the second-level cache.
void BlockPass::mlp_onto_stream(const TokenBlockWeights& block, const PackedRows& x,
                                Rows rows) const {
  const ThreadScratch& own = scratch();
  const int64_t panels = block.fc1.panels(), columns = block.fc1.panel_columns();
  const int64_t at_once = std::max<int64_t>(1, kHiddenColumns / columns);
  for (int64_t p = 0; p < panels; p += at_once) {
    const int64_t last = std::min(panels, p + at_once);
    const int64_t first = p * columns;
    const int64_t count = std::min(block.fc1.outputs(), last * columns) - first;
    block.fc1.run(x,
                  {.data = own.hidden,
                   .stride = count,
                   .first_column = first,
                   .dtype = dtype(),
                   .activation = kernels::Activation::kGelu},
                  own.product, p, last);
    block.fc2.accumulate({.rows = rows.count, .data = own.hidden, .stride = count},
                         stream(rows.first), dim_, first, count, own.product);
  }
}

void BlockPass::mlp_in_int8(const TokenBlockWeights& block, const PackedRows& x, Rows rows) const {
  const ThreadScratch& own = scratch();
  const int64_t hidden = block.fc1.outputs();
  block.fc1.run(x,
                {.data = own.hidden,
                 .stride = hidden,
                 .dtype = dtype(),
                 .activation = kernels::Activation::kGelu},
                own.product);
  const PackedResult residual{
      .data = stream(rows.first), .stride = dim_, .add = true, .gamma = data(block.gamma2)};
  block.fc2.run(stored_rows(own.hidden, hidden, rows.count, block.fc2.packing()), residual,
                own.product);
}

}  // namespace tost
