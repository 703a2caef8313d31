#include <ATen/Parallel.h>

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/parallel.h"
#include "tost/kernels/block_cache.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/kinds/language/engine_weights.h"
#include "tost/ops/arrays.h"
#include "tost/ops/kernel_call.h"

namespace tost {

using kernels::DType;
using kernels::WeightType;
using torch::Tensor;

namespace {

ParallelFor loop_over(int threads) {
  return threads == 1 ? ParallelFor(serial_for) : ParallelFor(torch_parallel);
}

// The number of rows that stay in an L2 cache of 2 MiB with a part of the MLP's hidden columns.
constexpr int64_t kTileRows = 256, kTileRowsNarrow = 400;
constexpr int64_t kPrefillColumns = 768;
constexpr int64_t kMostStepRows = 32;

bool wants_bfloat16(const LanguageWeights& weights) {
  return weights.type != WeightType::kFloat32 && multiplies_as_packed(Packing::kBfloat16);
}

PackedLinear packed(const StepWeight& weight, bool narrow) {
  if (!weight.defined()) return {};
  return {weight.rounded(), weight.bias, narrow ? Packing::kBfloat16 : Packing::kFloat32};
}

// Packs a map times gamma and without bias, so that the product can add to the residual stream.
PackedLinear packed_onto_stream(const StepWeight& weight, const Array& gamma, bool narrow) {
  if (!weight.defined()) return {};
  return {
      scaled_rows(weight.rounded(), gamma), {}, narrow ? Packing::kBfloat16 : Packing::kFloat32};
}
Array shift_of(const StepWeight& weight, const Array& gamma) {
  if (!weight.bias.defined()) return {};
  Array shift = weight.bias.as_float().clone();
  for (int64_t i = 0; i < shift.numel(); ++i) shift.mutable_data()[i] *= gamma.data()[i];
  return shift;
}

// Whether a block's mixer reads and gives bfloat16.
bool mixes_narrow(const LanguageBlockWeights& block) {
  return block.kind == BlockMixer::kTssa && !block.filter.defined() && !block.gate.defined();
}

}  // namespace

LanguagePrefill::LanguagePrefill(const LanguageWeights& weights)
    : weights_(weights),
      dim_(weights.config.dim),
      narrow_(wants_bfloat16(weights)),
      tile_rows_(narrow_ ? kTileRowsNarrow : kTileRows) {
  for (const auto& b : weights.blocks) {
    blocks_.push_back({packed(b.in, narrow_), packed_onto_stream(b.out, b.gamma1, narrow_),
                       packed(b.fc, narrow_), packed_onto_stream(b.proj, b.gamma2, narrow_),
                       shift_of(b.out, b.gamma1), shift_of(b.proj, b.gamma2),
                       packed(b.router, narrow_), packed(b.gate, narrow_),
                       packed(b.forget, narrow_)});
  }
  int64_t product = 0;
  for (const auto& b : blocks_) {
    for (const auto* map : b.maps()) {
      if (map->defined()) product = std::max(product, map->scratch_bytes(tile_rows_));
    }
  }
  tile_bytes_ = aligned(tile_rows_ * dim_ * 4) + aligned(tile_rows_ * weights.mlp_hidden * 4) +
                aligned(product);
}

void LanguagePrefill::head(const Tensor& rows, const Tensor& logits) {
  if (!head_.defined()) head_ = packed(weights_.table, narrow_);
  const auto x = narrow_ ? rows.to(torch::kBFloat16) : rows;
  const auto* data = static_cast<const char*>(x.const_data_ptr());
  const int64_t count = rows.size(0), vocab = head_.outputs();
  // Divides the columns among the threads if there are few rows.
  const int64_t tiles = divide_up(count, kTileRows), threads = torch_threads();
  const int64_t shares = tiles == 1 ? std::min(threads, head_.panels()) : 1;
  at::parallel_for(0, tiles * shares, 1, [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(head_.scratch_bytes(kTileRows))};
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t / shares * kTileRows, share = t % shares;
      PackedResult result;
      result.data = logits.mutable_data_ptr<float>() + first * vocab;
      result.stride = vocab;
      head_.run({std::min(kTileRows, count - first), data + first * dim_ * (narrow_ ? 2 : 4), dim_},
                result, scratch.data(), head_.panels() * share / shares,
                head_.panels() * (share + 1) / shares);
    }
    PackedLinear::release();
  });
}

int64_t LanguagePrefill::bytes() const {
  int64_t bytes = 0;
  for (const auto& b : blocks_) {
    for (const auto* map : b.maps()) bytes += map->bytes();
  }
  return bytes;
}

void LanguagePrefill::reserve(int64_t rows) {
  if (x_.defined() && x_.size(0) == rows) return;
  int64_t widest = dim_, most = weights_.config.heads;
  for (const auto& b : blocks_) {
    widest = std::max(widest, b.in.outputs());
    if (b.router.defined()) most = std::max(most, b.router.outputs());
  }
  x_ = torch::empty({rows, dim_});
  w_ = torch::empty({rows * widest});
  y_ = torch::empty({rows * dim_});
  pi_ = torch::empty({rows * most});
  gate_ = torch::empty({rows * dim_});
  forget_ = torch::empty({rows * weights_.config.heads});
}

// The first values of a buffer as [B, T, width], float32 or bfloat16.
Tensor LanguagePrefill::rows_of(const Tensor& buffer, int64_t width, bool narrow) const {
  const auto typed = narrow ? buffer.view(torch::kBFloat16) : buffer;
  return typed.narrow(0, 0, batch_ * tokens_ * width).view({batch_, tokens_, width});
}

const Tensor& LanguagePrefill::run(const Tensor& ids, LanguageState& state) {
  batch_ = ids.size(0);
  tokens_ = ids.size(1);
  states_ = {&state};
  return run_all(ids.const_data_ptr<int64_t>());
}

const Tensor& LanguagePrefill::run_texts(const std::vector<int64_t>& ids,
                                         const std::vector<LanguageState*>& states) {
  batch_ = int64_t(ids.size());
  tokens_ = 1;
  states_ = states;
  return run_all(ids.data());
}

const Tensor& LanguagePrefill::run_all(const int64_t* ids) {
  reserve(batch_ * tokens_);
  embed(ids);
  const auto count = int64_t(blocks_.size());
  for (int64_t i = 0; i <= count; ++i) {
    over_tiles(i);
    if (i < count) mix(i);
  }
  return x_;
}

bool LanguagePrefill::rows_alone() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& b) {
    const auto maps = b.maps();
    return std::all_of(maps.begin(), maps.end(), [](const PackedLinear* map) {
      return !map->defined() || map->rows_alone();
    });
  });
}

void LanguagePrefill::embed(const int64_t* ids) {
  float* x = x_.mutable_data_ptr<float>();
  const int64_t rows = batch_ * tokens_ / int64_t(states_.size());
  at::parallel_for(0, batch_ * tokens_, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      weights_.embed(ids[r], states_[size_t(r / rows)]->position + r % tokens_, x + r * dim_);
    }
  });
}

// Computes, a tile at a time, the part of the network between the mixers of two blocks.
void LanguagePrefill::over_tiles(int64_t block) {
  const int64_t rows = batch_ * tokens_;
  // Uses one thread for few rows on tile units, because every thread would read all weights.
  const bool few = tokens_ == 1 && rows <= kMostStepRows && rows_alone();
  const int64_t threads = few ? 1 : torch_threads();
  const int64_t tiles = divide_up(divide_up(rows, tile_rows_), threads) * threads;
  const int64_t size = std::min(tile_rows_, divide_up(divide_up(rows, tiles), 16) * 16);
  at::parallel_for(0, divide_up(rows, size), 1, [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(tile_bytes_)};
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile{t * size, std::min(size, rows - t * size),
                      static_cast<char*>(scratch.data())};
      if (block > 0) close(block - 1, tile);
      if (block < int64_t(blocks_.size())) open(block, tile);
    }
    PackedLinear::release();
  });
}

void LanguagePrefill::norm(const NormWeight& norm, const Tile& tile, void* y, bool narrow) {
  kernels::NormRowsArgs a = norm.args(x_.const_data_ptr<float>() + tile.first * dim_, tile.rows, y);
  a.y_type = narrow ? kernels::RowType::kBfloat16 : kernels::RowType::kFloat32;
  kernels::norm_rows(a);
}

void LanguagePrefill::open(int64_t index, const Tile& tile) {
  const auto& block = weights_.blocks[size_t(index)];
  if (block.kind == BlockMixer::kModule) {
    return norm(block.norm1, tile, w_.mutable_data_ptr<float>() + tile.first * dim_, false);
  }
  const auto& in = blocks_[size_t(index)].in;
  norm(block.norm1, tile, tile.scratch, narrow_);
  const bool narrow = narrow_ && mixes_narrow(block);
  PackedResult result;
  result.data = reinterpret_cast<char*>(w_.mutable_data_ptr<float>()) +
                tile.first * in.outputs() * (narrow ? 2 : 4);
  result.stride = in.outputs();
  result.dtype = narrow ? DType::kBfloat16 : DType::kFloat32;
  result.next = blocks_[size_t(index)].out.ahead();
  in.run({.rows = tile.rows, .data = tile.scratch, .stride = dim_}, result,
         tile.scratch + aligned(tile_rows_ * dim_ * 4));
  const auto project = [&](const PackedLinear& map, const Tensor& buffer) {
    if (!map.defined()) return;
    PackedResult numbers;
    numbers.stride = map.outputs();
    numbers.data = buffer.mutable_data_ptr<float>() + tile.first * numbers.stride;
    map.run({.rows = tile.rows, .data = tile.scratch, .stride = dim_}, numbers,
            tile.scratch + aligned(tile_rows_ * dim_ * 4));
  };
  project(blocks_[size_t(index)].router, pi_);
  project(blocks_[size_t(index)].gate, gate_);
  project(blocks_[size_t(index)].forget, forget_);
}

void LanguagePrefill::close(int64_t index, const Tile& tile) {
  const auto& block = weights_.blocks[size_t(index)];
  const auto& maps = blocks_[size_t(index)];
  char* hidden = tile.scratch + aligned(tile_rows_ * dim_ * 4);
  char* product = hidden + aligned(tile_rows_ * weights_.mlp_hidden * 4);
  float* stream = x_.mutable_data_ptr<float>() + tile.first * dim_;
  const int64_t columns = maps.fc.panel_columns(), panels = maps.fc.panels();
  const int64_t at_once = maps.fc.panels_within(kPrefillColumns);
  const bool final = index + 1 == int64_t(blocks_.size());
  const auto after = final ? kernels::FetchAhead() : blocks_[size_t(index + 1)].in.ahead();
  if (block.kind != BlockMixer::kModule) {
    const auto* y = reinterpret_cast<const char*>(y_.const_data_ptr<float>());
    const auto* from = y + tile.first * dim_ * (narrow_ ? 2 : 4);
    maps.out.accumulate({.rows = tile.rows, .data = from, .stride = dim_}, stream, dim_, 0, dim_,
                        product, maps.fc.ahead(0, at_once));
    shift(maps.out_shift, tile);
  }
  norm(block.norm2, tile, tile.scratch, narrow_);
  for (int64_t p = 0; p < panels; p += at_once) {
    const int64_t last = std::min(panels, p + at_once), first = p * columns;
    const int64_t count = std::min(weights_.mlp_hidden, last * columns) - first;
    maps.fc.run({.rows = tile.rows, .data = tile.scratch, .stride = dim_},
                {.data = hidden,
                 .stride = count,
                 .first_column = first,
                 .dtype = narrow_ ? DType::kBfloat16 : DType::kFloat32,
                 .activation = weights_.activation,
                 .next = maps.proj.ahead_of_inputs(first, count)},
                product, p, last);
    const bool more = last < panels;
    maps.proj.accumulate({.rows = tile.rows, .data = hidden, .stride = count}, stream, dim_, first,
                         count, product, more ? maps.fc.ahead(last, last + at_once) : after);
  }
  shift(maps.proj_shift, tile);
}

// Adds the bias of a product to the stream, because the product was added without bias.
void LanguagePrefill::shift(const Array& bias, const Tile& tile) {
  if (!bias.defined()) return;
  const float* from = bias.data();
  for (int64_t r = tile.first; r < tile.first + tile.rows; ++r) {
    float* x = x_.mutable_data_ptr<float>() + r * dim_;
    for (int64_t i = 0; i < dim_; ++i) x[i] += from[i];
  }
}

void LanguagePrefill::mix(int64_t index) {
  const auto& block = weights_.blocks[size_t(index)];
  const auto texts = int64_t(states_.size());
  const auto one = [&](size_t text, int threads) {
    if (block.kind == BlockMixer::kTssa) tssa(block, index, text, threads);
    if (block.kind == BlockMixer::kMeans) means(block, index, text, threads);
    if (block.kind == BlockMixer::kDelta) delta(block, index, text, threads);
  };
  if (block.kind == BlockMixer::kSoftmax || block.kind == BlockMixer::kModule) {
    for (size_t text = 0; text < states_.size(); ++text) mix_module(index, text);
  } else if (texts == 1) {
    one(0, torch_threads());
  } else {
    at::parallel_for(0, texts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t text = begin; text < end; ++text) one(size_t(text), 1);
    });
  }
}

void LanguagePrefill::mix_module(int64_t index, size_t text) {
  const auto& block = weights_.blocks[size_t(index)];
  auto& own = states_[text]->blocks[size_t(index)];
  const int64_t batch = batch_ / int64_t(states_.size()), first = int64_t(text) * batch;
  const int64_t position = states_[text]->position;
  const bool softmax = block.kind == BlockMixer::kSoftmax;
  const auto input = rows_of(w_, (softmax ? 3 : 1) * dim_, false).narrow(0, first, batch);
  const auto mixed = torch::empty({batch, tokens_, dim_});
  weights_.modules->mix(index, array_of(input), position, own, mixed.mutable_data_ptr<float>());
  if (softmax) {
    rows_of(y_, dim_, narrow_).narrow(0, first, batch).copy_(mixed);
  } else {
    x_.narrow(0, first * tokens_, batch * tokens_)
        .addcmul_(tensor_of(block.gamma1), mixed.view({batch * tokens_, dim_}));
  }
}

void LanguagePrefill::means(const LanguageBlockWeights& block, int64_t index, size_t text,
                            int threads) {
  const int64_t batch = batch_ / int64_t(states_.size());
  const int64_t first = int64_t(text) * batch * tokens_;  // row
  const MeansState own(block.means, batch, states_[text]->blocks[size_t(index)]);
  const auto base = torch::empty({batch, tokens_, dim_});
  const auto y = rows_of(y_, dim_, narrow_).narrow(0, int64_t(text) * batch, batch);
  const auto mixed = narrow_ ? torch::empty_like(base) : y;
  const ScratchBlock workspace(size_t(mix_means_workspace(block.means, batch, tokens_)));
  const int64_t parts = (block.means.gate ? 3 : 2) * dim_;
  const MeansMix mix{.batch = batch,
                     .tokens = tokens_,
                     .parts = w_.const_data_ptr<float>() + first * parts,
                     .pi = pi_.mutable_data_ptr<float>() + first * block.means.heads,
                     .base = base.mutable_data_ptr<float>(),
                     .y = mixed.mutable_data_ptr<float>(),
                     .sums = own.sums,
                     .past = own.past};
  mix_means(block.means, mix, workspace.data(), loop_over(threads));
  if (narrow_) y.copy_(mixed);
}

void LanguagePrefill::delta(const LanguageBlockWeights& block, int64_t index, size_t text,
                            int threads) {
  const auto& weights = block.delta;
  const int64_t batch = batch_ / int64_t(states_.size()), heads = weights.heads;
  const int64_t width = dim_ / heads, parts = weights.parts() * dim_;
  const DeltaState own(weights, batch, states_[text]->blocks[size_t(index)]);
  const auto y = rows_of(y_, dim_, narrow_).narrow(0, int64_t(text) * batch, batch);
  const auto mixed = narrow_ ? torch::empty({batch, tokens_, dim_}) : y;
  loop_over(threads)(batch * heads, [&](int64_t begin, int64_t end) {
    const ScratchBlock workspace(size_t(mix_delta_workspace(weights, tokens_)));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / heads, first = (int64_t(text) * batch + sample) * tokens_;
      DeltaMix mix{.tokens = tokens_,
                   .parts = w_.const_data_ptr<float>() + first * parts,
                   .beta = pi_.const_data_ptr<float>() + first * weights.steps * heads,
                   .y = mixed.mutable_data_ptr<float>() + sample * tokens_ * dim_,
                   .memory = own.memory + sample * heads * width * width};
      if (block.forget.defined()) mix.forget = forget_.const_data_ptr<float>() + first * heads;
      if (block.gate.defined()) mix.gate = gate_.const_data_ptr<float>() + first * dim_;
      if (own.past != nullptr) mix.past = own.past + sample * (weights.filter.size(0) - 1) * parts;
      mix_delta(weights, mix, i % heads, workspace.data());
    }
  });
  if (narrow_) y.copy_(mixed);
}

void LanguagePrefill::tssa(const LanguageBlockWeights& block, int64_t index, size_t text,
                           int threads) {
  const int64_t heads = weights_.config.heads, size = 2 * dim_ + heads;
  const int64_t batch = batch_ / int64_t(states_.size()), first = int64_t(text) * batch;
  const Array before = states_[text]->blocks[size_t(index)]["statistics"].contiguous();
  Array after = Array::empty({batch, size}, TorchDtype::kFloat64);
  if (before.defined()) check_state(before, {batch, size}, TorchDtype::kFloat64);
  const bool narrow = narrow_ && mixes_narrow(block);
  auto w = rows_of(w_, dim_, narrow).narrow(0, first, batch);
  const auto result = rows_of(y_, dim_, narrow_).narrow(0, first, batch);
  const auto y = narrow == narrow_ ? result : torch::empty(w.sizes());
  if (block.filter.defined()) {
    const Array::Shape earlier{batch, block.filter.size(0) - 1, dim_};
    float* past =
        owned_state(states_[text]->blocks[size_t(index)], "conv", earlier, TorchDtype::kFloat32)
            .mutable_data();
    const auto convolved = torch::empty(w.sizes());
    convolve_texts(block.filter, batch, tokens_, w.const_data_ptr<float>(), past,
                   convolved.mutable_data_ptr<float>());
    w = convolved;
  }
  kernels::CausalForwardArgs a;
  a.shape = shape_of(w, heads);
  a.dtype = kernel_dtype(w);
  a.w = tokens_in(w);
  a.y = tokens_out(y);
  a.temp = block.temp.data();
  a.bias = {block.denom_bias.data(), block.denom_bias.size(1), states_[text]->position};
  if (before.defined()) a.state = before.data<double>();
  a.next_state = after.mutable_data<double>();
  const ScratchBlock workspace(size_t(kernels::causal_forward_workspace(a, threads)));
  kernels::causal_forward(a, workspace.data(), loop_over(threads), threads);
  if (block.scale != 1) y.mul_(block.scale);
  if (block.gate.defined()) {
    multiply_by_silu(gate_.const_data_ptr<float>() + first * tokens_ * dim_, y.numel(),
                     y.mutable_data_ptr<float>());
  }
  if (narrow != narrow_) result.copy_(y);
  states_[text]->blocks[size_t(index)]["statistics"] = after;
}

}  // namespace tost
