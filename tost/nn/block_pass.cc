#include "tost/nn/block_pass.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/kernels/tssa.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

constexpr int64_t kHiddenColumns = 384;  // of an MLP, computed and used at a time

}  // namespace

ThreadScratch block_scratch(ScratchMemory& memory, int64_t tile_rows, int64_t dim, int64_t hidden,
                            Packing products, int64_t product_bytes) {
  const int64_t size = products == Packing::kFloat32 ? 4 : 2;
  ThreadScratch piece;
  piece.normed = memory.take<char>(tile_rows * dim * 4);
  piece.hidden = memory.take<char>(tile_rows * hidden * size);
  piece.bytes = memory.take<uint8_t>(tile_rows * std::max(hidden, dim));
  piece.scale = memory.take<float>(2 * tile_rows * 4);
  piece.zero = memory.take<int32_t>(2 * tile_rows * 4);
  piece.product = memory.take<char>(product_bytes);
  return piece;
}

int64_t tssa_scratch_bytes(int64_t tokens, int64_t heads, int64_t dim) {
  kernels::TssaForwardArgs args;
  args.shape = {1, tokens, heads, dim / heads};
  return aligned(kernels::tssa_forward_workspace(args));
}

const ThreadScratch& BlockPass::scratch() const {
  return scratch_[static_cast<size_t>(at::get_thread_num())];
}

kernels::NormRowsArgs BlockPass::norm_args(const NormWeights& norm, const float* shift,
                                           Rows rows) const {
  kernels::NormRowsArgs args;
  args.rows = rows.count;
  args.width = args.x_stride = args.y_stride = dim_;
  args.x = stream(rows.first);
  args.weight = data(norm.weight);
  args.bias = data(norm.bias);
  args.shift = shift;
  args.shifted = stream(rows.first);
  return args;
}

void BlockPass::add_rows(const float* y, const torch::Tensor& gamma, Rows rows) const {
  kernels::FinishRowsArgs args;
  args.rows = rows.count;
  args.columns = args.sums_stride = args.out_stride = dim_;
  args.sums = y;
  args.add = true;
  args.gamma = data(gamma);
  args.out = stream(rows.first);
  kernels::finish_rows(args);
}

void BlockPass::norm(const NormWeights& norm, const float* shift, Rows rows, bool as_float) const {
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

PackedRows BlockPass::normed_rows(const NormWeights& weights, const float* shift, Rows rows) const {
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
  mlp(block, normed_rows(block.norm2, data(block.out_shift), rows), rows, next);
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

using torch::Tensor;

bool packable(const torch::nn::Module& model) {
  const auto parameters = model.parameters();
  return std::all_of(parameters.begin(), parameters.end(), [](const Tensor& each) {
    return each.is_cpu() && each.scalar_type() == torch::kFloat;
  });
}

namespace {

PackedLinear packed_named(const Linear& linear, Packing packing, const std::string& name) {
  if (packing == Packing::kInt8) check_roundable(linear.weight, name + ".weight");
  return packed_map(linear, packing);
}

// Packs a linear map times gamma without bias, and sets `shift` to its bias times gamma.
PackedLinear packed_onto_stream(const Linear& linear, const Tensor& gamma, Packing packing,
                                const std::string& name, Tensor& shift) {
  if (packing == Packing::kInt8) check_roundable(linear.weight, name + ".weight");
  shift = weight_values(linear.bias * gamma);
  return {array_of(linear.weight * gamma.unsqueeze(1)), {}, packing};
}

}  // namespace

Tensor weight_values(const Tensor& parameter) {
  return parameter.defined() ? parameter.detach().to(torch::kFloat).contiguous().clone() : Tensor();
}

NormWeights norm_weights(const LayerNorm& norm, float factor) {
  NormWeights weights{weight_values(norm.weight * factor), {}};
  if (norm.bias.defined()) weights.bias = weight_values(norm.bias * factor);
  return weights;
}

PackedLinear packed_map(const Linear& linear, Packing packing) {
  return {array_of(linear.weight), array_of(linear.bias), packing};
}

void check_roundable(const Tensor& weight, const std::string& name) {
  if (weight.isfinite().all().item<bool>()) return;
  fail_data("Tensor '", name, "' has values that are not finite and cannot become integers; ",
            "use fp32 or bf16, or an earlier checkpoint.");
}

TokenBlockWeights token_block_weights(const Block& block, Packing packing,
                                      const std::string& name) {
  TokenBlockWeights weights;
  weights.norm1 = norm_weights(*block.norm1);
  weights.norm2 = norm_weights(*block.norm2);
  weights.fc1 = packed_named(*block.mlp->fc1, packing, name + "mlp.fc1");
  weights.fc2 = packed_onto_stream(*block.mlp->fc2, block.gamma2, packing, name + "mlp.fc2",
                                   weights.fc2_shift);
  weights.gamma1 = weight_values(block.gamma1);
  weights.gamma2 = weight_values(block.gamma2);
  weights.module = block.attn;
  const auto* tssa = dynamic_cast<const TssaMixer*>(block.attn.get());
  if (tssa == nullptr && dynamic_cast<const NoMixer*>(block.attn.get()) == nullptr) return weights;
  const auto& projections = static_cast<const TokenStatisticsMixer&>(*block.attn);
  weights.mixer = tssa != nullptr ? EngineMixer::kTssa : EngineMixer::kNone;
  weights.in = packed_named(*projections.qkv, packing, name + "attn.qkv");
  weights.out =
      packed_onto_stream(*projections.to_out->named_children()["0"]->as<Linear>(), block.gamma1,
                         packing, name + "attn.to_out.0", weights.out_shift);
  if (tssa == nullptr) return weights;
  weights.temp = weight_values(tssa->temp.flatten());
  return weights;
}

}  // namespace tost
