#include "tost/engine/vision_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/mixer_names.h"
#include "tost/kernels/tssa.h"

namespace tost {
namespace {

constexpr int64_t kTaps = 9;  // of a convolution

// The number of inputs of a product: whole steps of the kernels that multiply. What is gathered is
// filled up with zeros as well.
int64_t padded_inputs(int64_t inputs, Packing packing) {
  const int64_t step = packing == Packing::kFloat32 ? 4 : 32;
  return divide_up(inputs, step) * step;
}

// The map [to, from, side, side] of whole patches.
StemStage patch_stage(WeightSource& source, const VisionConfig& c, Packing packing) {
  const Array weight =
      source.values("patch_embed.proj.weight", {c.dim, c.in_channels, c.patch, c.patch});
  const int64_t own = c.in_channels * c.patch * c.patch, inputs = padded_inputs(own, packing);
  Array matrix = Array::zeros({c.dim, inputs});
  for (int64_t o = 0; o < c.dim; ++o) {
    std::copy_n(weight.data() + o * own, own, matrix.mutable_data() + o * inputs);
  }
  const Array bias = source.values("patch_embed.proj.bias", {c.dim});
  return {c.in_channels, c.dim, c.patch, c.patch, PackedLinear(matrix, bias, packing)};
}

struct StemSizes {
  int64_t from, to, stride;
};

// The weight [to, from, 3, 3] of convolution `index` with its batch norm (in evaluation mode)
// folded in.
StemStage stem_stage(WeightSource& source, int64_t index, const StemSizes& sizes, Packing packing) {
  constexpr float kEps = 1e-5f;  // of the batch norms
  const int64_t from = sizes.from, to = sizes.to, stride = sizes.stride;
  const std::string name = cat("patch_embed.proj.", 2 * index, ".");
  const auto norm = [&](const char* part) { return source.values(name + "1." + part, {to}); };
  const Array conv = source.values(name + "0.weight", {to, from, 3, 3});
  const Array weight = norm("weight"), bias = norm("bias");
  const Array mean = norm("running_mean"), variance = norm("running_var");
  source.skip(name + "1.num_batches_tracked");
  const int64_t inputs = padded_inputs(from * kTaps, packing);
  Array matrix = Array::zeros({to, inputs}), shift = Array::empty({to});
  for (int64_t o = 0; o < to; ++o) {
    const float scale = weight.data()[o] / std::sqrt(variance.data()[o] + kEps);
    shift.mutable_data()[o] = bias.data()[o] - mean.data()[o] * scale;
    for (int64_t c = 0; c < from; ++c) {
      for (int64_t k = 0; k < kTaps; ++k) {
        const int64_t at = index == 0 ? c * kTaps + k : k * from + c;
        matrix.mutable_data()[o * inputs + at] = conv.data()[(o * from + c) * kTaps + k] * scale;
      }
    }
  }
  return {from, to, stride, 3, PackedLinear(matrix, shift, packing)};
}

// A part of an array that begins with element `first`.
Array part_of(const Array& all, int64_t first, Array::Shape shape, Array::Shape strides = {}) {
  if (!all.defined()) return {};
  auto* data = const_cast<float*>(all.data()) + first;
  return {std::move(shape), TorchDtype::kFloat32, {all.owner(), data}, std::move(strides)};
}

StepWeight wide_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                    bool bias, Packing packing) {
  StepWeight map = source.map(name, out, in, bias, kernels::WeightType::kFloat32);
  if (packing == Packing::kInt8) check_roundable(map.values, name + ".weight");
  return map;
}

ClassBlockWeights class_block_weights(WeightSource& source, const std::string& name,
                                      const VisionConfig& config, Packing packing) {
  const int64_t dim = config.dim, width = dim / config.heads;
  const int64_t hidden = hidden_width(dim, config.mlp_ratio);
  const StepWeight qkv =
      source.map(name + "attn.qkv", 3 * dim, dim, config.qkv_bias, kernels::WeightType::kFloat32);
  ClassBlockWeights weights;
  weights.norm1 = source.norm(name + "norm1", dim);
  weights.norm2 = source.norm(name + "norm2", dim);
  if (config.tokens_norm) {
    weights.doubled = {weights.norm2.weight.clone(), weights.norm2.bias.clone()};
    for (Array* each : {&weights.doubled.weight, &weights.doubled.bias}) {
      for (int64_t i = 0; i < dim; ++i) each->mutable_data()[i] *= 2;
    }
  }
  weights.query =
      PackedLinear(part_of(qkv.values, 0, {dim, dim}), part_of(qkv.bias, 0, {dim}), packing);
  for (int64_t row = dim; row < 2 * dim; row += width) {
    weights.key.emplace_back(part_of(qkv.values, row * dim, {dim, width}, {1, dim}), Array(),
                             packing);
    weights.value.emplace_back(part_of(qkv.values, (row + dim) * dim, {width, dim}),
                               part_of(qkv.bias, row + dim, {width}), packing);
  }
  weights.out = packed_map(source, name + "attn.proj", dim, dim, packing);
  weights.fc1 = packed_map(source, name + "mlp.fc1", hidden, dim, packing);
  weights.fc2 = packed_map(source, name + "mlp.fc2", dim, hidden, packing);
  weights.gamma1 = source.values(name + "gamma1", {dim}).clone();
  weights.gamma2 = source.values(name + "gamma2", {dim}).clone();
  return weights;
}

TokenBlockWeights token_block_weights(WeightSource& source, const std::string& name,
                                      const VisionConfig& config, Packing packing) {
  const int64_t dim = config.dim, hidden = hidden_width(dim, config.mlp_ratio);
  TokenBlockWeights weights{.mixer = engine_mixer(config)};
  weights.norm1 = source.norm(name + "norm1", dim);
  weights.norm2 = source.norm(name + "norm2", dim);
  weights.gamma1 = source.values(name + "gamma1", {dim}).clone();
  weights.gamma2 = source.values(name + "gamma2", {dim}).clone();
  weights.fc1 = packed_map(source, name + "mlp.fc1", hidden, dim, packing);
  const StepWeight fc2 = wide_map(source, name + "mlp.fc2", dim, hidden, true, packing);
  weights.fc2 = packed_onto_rows(fc2, weights.gamma2, packing, weights.fc2_shift);
  if (weights.mixer == EngineMixer::kModule) return weights;
  const StepWeight in = wide_map(source, name + "attn.qkv", dim, dim, config.qkv_bias, packing);
  weights.in = {in, {}, packing};
  const StepWeight out = wide_map(source, name + "attn.to_out.0", dim, dim, true, packing);
  weights.out = packed_onto_rows(out, weights.gamma1, packing, weights.out_shift);
  if (weights.mixer == EngineMixer::kTssa) {
    weights.temp = source.values(name + "attn.temp", {config.heads, 1}).clone();
  }
  return weights;
}

// Scratch that one thread's products of at most `rows` rows want.
int64_t product_bytes(const VisionWeights& weights, int64_t rows, int64_t images) {
  int64_t most = weights.head.scratch_bytes(images);
  const auto want = [&](const PackedLinear& map, int64_t of_rows) {
    if (map.defined()) most = std::max(most, map.scratch_bytes(of_rows));
  };
  for (const auto& stage : weights.stem) want(stage.product, stem_tile_rows(stage));
  for (const auto& block : weights.blocks) {
    for (const auto* map : {&block.in, &block.out, &block.fc1, &block.fc2}) want(*map, rows);
  }
  for (const auto& block : weights.class_blocks) {
    for (const auto* map :
         {&block.query, &block.key[0], &block.value[0], &block.out, &block.fc1, &block.fc2}) {
      want(*map, images);
    }
  }
  return most;
}

int64_t gathered_bytes(const VisionWeights& weights, int64_t size) {
  int64_t most = 0;
  for (const auto& stage : weights.stem) {
    most = std::max(most, stem_tile_rows(stage) * stage.product.inputs() * size);
  }
  return most;
}

}  // namespace

Array position_code(int64_t rows, int64_t columns) {
  constexpr int64_t kAxis = kPositionChannels / 2;
  Array code = Array::empty({rows * columns, kPositionChannels});
  float* to = code.mutable_data();
  const auto axis = [&](int64_t at, int64_t n) {
    const double position = double(at + 1) * (2 * std::numbers::pi / (double(n) + 1e-6));
    for (int64_t i = 0; i < kAxis; i += 2) {
      const double angle = position / std::pow(1e4, double(i) / kAxis);
      *to++ = float(std::sin(angle));
      *to++ = float(std::cos(angle));
    }
  };
  for (int64_t i = 0; i < rows * columns; ++i) axis(i / columns, rows), axis(i % columns, columns);
  return code;
}

EngineMixer engine_mixer(const VisionConfig& config) {
  if (config.mixer == "tssa") return EngineMixer::kTssa;
  return config.mixer == "none" ? EngineMixer::kNone : EngineMixer::kModule;
}

PackedLinear packed_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                        Packing packing, bool bias) {
  const StepWeight map = wide_map(source, name, out, in, bias, packing);
  return {map, {}, packing};
}

VisionWeights pack_vision_weights(const VisionConfig& c, WeightSource& source, Packing products) {
  const Packing rest = products == Packing::kInt8 ? Packing::kBfloat16 : products;
  VisionWeights weights;
  if (c.stem_depth == 0) weights.stem.push_back(patch_stage(source, c, rest));
  int64_t from = c.in_channels;
  for (int64_t left = c.stem_depth > 0 ? c.patch : 1; left > 1; left /= 2) {
    const int64_t to = c.dim / (left / 2);
    for (int64_t i = 0; i < c.stem_depth; ++i, from = to) {
      weights.stem.push_back(
          stem_stage(source, int64_t(weights.stem.size()), {from, to, i == 0 ? 2 : 1}, rest));
    }
  }
  for (int64_t i = 0; i < c.depth; ++i) {
    weights.blocks.push_back(token_block_weights(source, cat("blocks.", i, "."), c, products));
  }
  for (int64_t i = 0; i < c.class_blocks; ++i) {
    weights.class_blocks.push_back(
        class_block_weights(source, cat("cls_attn_blocks.", i, "."), c, rest));
  }
  const std::string position = "pos_embeder.token_projection";
  weights.position = {part_of(source.values(position + ".weight", {c.dim, kPositionChannels, 1, 1}),
                              0, {c.dim, kPositionChannels}),
                      source.values(position + ".bias", {c.dim}), Packing::kFloat32};
  weights.class_token = source.values("cls_token", {1, 1, c.dim}).clone();
  if (c.registers > 0) {
    weights.registers = source.values("registers", {1, c.registers, c.dim}).clone();
  }
  weights.norm = source.norm("norm", c.dim);
  weights.head = packed_map(source, "head", c.classes, c.dim, rest);
  return weights;
}

VisionWorkspace::VisionWorkspace(const VisionConfig& config, const VisionWeights& weights,
                                 const VisionShape& shape, int64_t tile_rows)
    : shape(shape), tile_rows(tile_rows), products(weights.blocks[0].fc1.packing()) {
  // Laid out twice, first to learn the size. Pieces are a line apart, so that they do not all start
  // in the same set of the caches.
  kernels::Arena counted(nullptr, 64);
  lay_out(config, weights, counted);
  memory_ = Array::zeros({counted.used()}, TorchDtype::kUInt8);
  kernels::Arena memory(memory_.mutable_data<char>(), 64);
  lay_out(config, weights, memory);
}

void VisionWorkspace::lay_out(const VisionConfig& config, const VisionWeights& weights,
                              kernels::Arena& memory) {
  const int64_t size = half() ? 2 : 4;
  const int64_t dim = config.dim, images = shape.images;
  const int64_t hidden = weights.class_blocks[0].fc1.outputs();
  const int64_t all = images * shape.tokens * dim;
  stream = memory.take<float>(all);
  projected = memory.take<char>(all * size);
  mixed = memory.take<char>(all * size);
  kernels::TssaForwardArgs tssa_args;
  tssa_args.shape = {1, shape.tokens, config.heads, dim / config.heads};
  tssa_bytes = aligned(kernels::tssa_forward_workspace(tssa_args));
  tssa = memory.take<char>(images * tssa_bytes);
  classed.clear();
  for (size_t i = 0; i < weights.class_blocks.size(); ++i) {
    classed.push_back(memory.take<char>(images * (1 + shape.patches) * dim * size));
  }
  class_stream = memory.take<float>(images * dim);
  class_normed = memory.take<char>(images * dim * size);
  class_query = memory.take<float>(images * config.heads * dim);
  class_sums = memory.take<char>(images * config.heads * dim * size);
  class_values = memory.take<char>(images * dim * size);
  class_hidden = memory.take<char>(images * hidden * size);
  scratch.clear();
  pictures.assign(static_cast<size_t>(shape.threads), {});
  for (int64_t t = 0; t < shape.threads; ++t) {
    ThreadScratch piece;
    piece.normed = memory.take<char>(tile_rows * dim * 4);
    piece.hidden = memory.take<char>(tile_rows * hidden * size);
    piece.bytes = memory.take<uint8_t>(tile_rows * std::max(hidden, dim));
    piece.scale = memory.take<float>(2 * tile_rows);
    piece.zero = memory.take<int32_t>(2 * tile_rows);
    piece.product = memory.take<char>(product_bytes(weights, tile_rows, images));
    piece.gathered = memory.take<char>(gathered_bytes(weights, size));
    piece.attention = memory.take<float>(config.heads * (1 + shape.patches));
    scratch.push_back(piece);
    int64_t pixels = shape.patches * config.patch * config.patch;
    for (const auto& stage : weights.stem) {
      pictures[static_cast<size_t>(t)].push_back(memory.take<char>(pixels * stage.from * size));
      pixels /= stage.stride * stage.stride;
    }
  }
}

}  // namespace tost
