#include "tost/engine/language_prefill.h"

#include <algorithm>

#include "tost/engine/threads.h"
#include "tost/kernels/block_cache.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa_causal.h"

namespace tost {

using kernels::DType;
using kernels::WeightType;

namespace {

// The number of rows that stay in an L2 cache of 2 MiB with a part of the MLP's hidden columns.
constexpr int64_t kTileRows = 256, kTileRowsNarrow = 400;
constexpr int64_t kPrefillColumns = 768;

PackedLinear packed(const StepWeight& weight, Packing packing) {
  return weight.defined() ? PackedLinear(weight, {}, packing) : PackedLinear();
}

// Whether a block's mixer reads and gives bfloat16.
bool mixes_narrow(const LanguageBlockWeights& block) {
  return block.kind == BlockMixer::kTssa && !block.filter.defined() && !block.gate.defined();
}

}  // namespace

bool multiplies_bfloat16(const LanguageWeights& weights) {
  return weights.type != WeightType::kFloat32 && multiplies_as_packed(Packing::kBfloat16);
}

LanguagePrefill::LanguagePrefill(const LanguageWeights& weights, Layout layout)
    : weights_(weights),
      dim_(weights.config.dim),
      narrow_(multiplies_bfloat16(weights)),
      packing_(narrow_ ? Packing::kBfloat16 : Packing::kFloat32),
      layout_(layout),
      tile_rows_(narrow_ ? kTileRowsNarrow : kTileRows),
      blocks_(weights.blocks.size()) {
  for (size_t i = 0; layout == Layout::kStored && i < blocks_.size(); ++i) {
    lay_out(int64_t(i), /*opening=*/true);
    lay_out(int64_t(i), /*opening=*/false);
  }
}

// Lays out the maps of open(), or those of close().
void LanguagePrefill::lay_out(int64_t index, bool opening) {
  const auto& b = weights_.blocks[size_t(index)];
  Block& block = blocks_[size_t(index)];
  if (opening) {
    block.in = packed(b.in, packing_);
    block.router = packed(b.router, packing_);
    block.gate = packed(b.gate, packing_);
    block.forget = packed(b.forget, packing_);
  } else {
    block.out = packed_onto_rows(b.out, b.gamma1, packing_, block.out_shift);
    block.fc = packed(b.fc, packing_);
    block.proj = packed_onto_rows(b.proj, b.gamma2, packing_, block.proj_shift);
  }
  for (const auto* map : block.maps()) {
    if (map->defined()) product_bytes_ = std::max(product_bytes_, map->scratch_bytes(tile_rows_));
  }
  if (opening) return;
  hidden_columns_ = block.fc.panels_within(kPrefillColumns) * block.fc.panel_columns();
}

void LanguagePrefill::head(const float* rows, int64_t count, float* logits) {
  if (!head_.defined()) head_ = packed(weights_.table, packing_);
  Array rounded;
  const void* x = rows;
  if (narrow_) {
    rounded = Array::empty({count * dim_}, TorchDtype::kBFloat16);
    kernels::round_rows(rows, count, dim_, rounded.mutable_data<void>());
    x = rounded.data<void>();
  }
  const auto* data = static_cast<const char*>(x);
  const int64_t vocab = head_.outputs();
  // Divides the columns among the threads if there are few rows.
  const int64_t tiles = divide_up(count, kTileRows);
  const int64_t shares = tiles == 1 ? std::min<int64_t>(engine_threads(), head_.panels()) : 1;
  parallel_tasks(tiles * shares, [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(head_.scratch_bytes(kTileRows))};
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t / shares * kTileRows, share = t % shares;
      PackedResult result;
      result.data = logits + first * vocab;
      result.stride = vocab;
      head_.run({std::min(kTileRows, count - first), data + first * dim_ * (narrow_ ? 2 : 4), dim_},
                result, scratch.data(), head_.panels() * share / shares,
                head_.panels() * (share + 1) / shares);
    }
  });
}

void LanguagePrefill::reserve(int64_t rows) {
  if (x_.defined() && x_.size(0) >= rows) return;
  int64_t w = 0, mixed = 0, base = 0, pi = 0, gate = 0, forget = 0;
  for (const auto& b : weights_.blocks) {
    w = std::max(w, b.in.outputs());
    pi = std::max(pi, b.router.outputs());
    gate = std::max(gate, b.gate.outputs());
    forget = std::max(forget, b.forget.outputs());
    if (narrow_ && !mixes_narrow(b)) mixed = dim_;
    if (b.filter.defined() || b.means.filter.defined()) base = dim_;
  }
  for (const auto& [numbers, width] : {std::pair{&x_, dim_},
                                       {&w_, w},
                                       {&y_, dim_},
                                       {&mixed_, mixed},
                                       {&base_, base},
                                       {&pi_, pi},
                                       {&gate_, gate},
                                       {&forget_, forget}}) {
    *numbers = {};  // before the new memory is taken
    *numbers = Array::empty({rows, width});
  }
}

const float* LanguagePrefill::run(const int64_t* ids, int64_t batch, int64_t tokens,
                                  LanguageState& state) {
  batch_ = batch;
  tokens_ = tokens;
  state_ = &state;
  reserve(batch_ * tokens_);
  embed(ids);
  const auto count = int64_t(blocks_.size());
  for (int64_t i = 0; i <= count; ++i) {
    if (layout_ == Layout::kStored) over_tiles(i - 1, i);
    for (const bool opening : {false, true}) {
      const int64_t block = opening ? i : i - 1;
      if (layout_ == Layout::kStored || block < 0 || block == count) continue;
      lay_out(block, opening);
      opening ? over_tiles(-1, block) : over_tiles(block, count);
      blocks_[size_t(block)] = {};
    }
    if (i < count) mix(i);
  }
  return x_.data();
}

void LanguagePrefill::embed(const int64_t* ids) {
  float* x = x_.mutable_data();
  const int64_t rows = batch_ * tokens_;
  constexpr int64_t kAtOnce = 64;
  parallel_tasks(divide_up(rows, kAtOnce), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin * kAtOnce; r < std::min(rows, end * kAtOnce); ++r) {
      weights_.embed(ids[r], state_->position + r % tokens_, x + r * dim_);
    }
  });
}

// Closes a block and opens another, a tile at a time; -1 or the number of blocks is none.
void LanguagePrefill::over_tiles(int64_t closed, int64_t opened) {
  const int64_t rows = batch_ * tokens_, threads = engine_threads();
  const int64_t tiles = divide_up(divide_up(rows, tile_rows_), threads) * threads;
  const int64_t size = std::min(tile_rows_, divide_up(divide_up(rows, tiles), 16) * 16);
  const int64_t tile_bytes =
      tile_bytes_of(dim_) + tile_bytes_of(hidden_columns_) + aligned(product_bytes_);
  parallel_tasks(divide_up(rows, size), [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(tile_bytes)};
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile{t * size, std::min(size, rows - t * size),
                      static_cast<char*>(scratch.data())};
      if (closed >= 0) close(closed, tile);
      if (opened < int64_t(blocks_.size())) open(opened, tile);
    }
  });
}

void LanguagePrefill::norm(const NormWeight& norm, const Tile& tile, void* y, bool narrow) {
  kernels::NormRowsArgs a = norm.args(x_.data() + tile.first * dim_, tile.rows, y);
  a.y_type = narrow ? kernels::RowType::kBfloat16 : kernels::RowType::kFloat32;
  kernels::norm_rows(a);
}

void LanguagePrefill::open(int64_t index, const Tile& tile) {
  const auto& block = weights_.blocks[size_t(index)];
  const auto& in = blocks_[size_t(index)].in;
  norm(block.norm1, tile, tile.scratch, narrow_);
  const bool narrow = narrow_ && mixes_narrow(block);
  PackedResult result;
  result.data = w_.mutable_data<char>() + tile.first * in.outputs() * (narrow ? 2 : 4);
  result.stride = in.outputs();
  result.dtype = narrow ? DType::kBfloat16 : DType::kFloat32;
  result.next = blocks_[size_t(index)].out.ahead();
  in.run({.rows = tile.rows, .data = tile.scratch, .stride = dim_}, result,
         tile.scratch + tile_bytes_of(dim_));
  const auto project = [&](const PackedLinear& map, Array& buffer) {
    if (!map.defined()) return;
    PackedResult numbers;
    numbers.stride = map.outputs();
    numbers.data = buffer.mutable_data() + tile.first * numbers.stride;
    map.run({.rows = tile.rows, .data = tile.scratch, .stride = dim_}, numbers,
            tile.scratch + tile_bytes_of(dim_));
  };
  project(blocks_[size_t(index)].router, pi_);
  project(blocks_[size_t(index)].gate, gate_);
  project(blocks_[size_t(index)].forget, forget_);
}

void LanguagePrefill::close(int64_t index, const Tile& tile) {
  const auto& block = weights_.blocks[size_t(index)];
  const auto& maps = blocks_[size_t(index)];
  char* hidden = tile.scratch + tile_bytes_of(dim_);
  char* product = hidden + tile_bytes_of(hidden_columns_);
  float* stream = x_.mutable_data() + tile.first * dim_;
  const int64_t columns = maps.fc.panel_columns(), panels = maps.fc.panels();
  const int64_t at_once = maps.fc.panels_within(kPrefillColumns);
  const bool final = index + 1 == int64_t(blocks_.size());
  const auto after = final ? kernels::FetchAhead() : blocks_[size_t(index + 1)].in.ahead();
  const auto* mixed = y_.data<char>() + tile.first * dim_ * (narrow_ ? 2 : 4);
  maps.out.accumulate({.rows = tile.rows, .data = mixed, .stride = dim_}, stream, dim_, 0, dim_,
                      product, maps.fc.ahead(0, at_once));
  shift(maps.out_shift, tile);
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
    float* x = x_.mutable_data() + r * dim_;
    for (int64_t i = 0; i < dim_; ++i) x[i] += from[i];
  }
}

void LanguagePrefill::mix(int64_t index) {
  const auto& block = weights_.blocks[size_t(index)];
  Arrays& own = state_->blocks[size_t(index)];
  const bool narrow = narrow_ && mixes_narrow(block);
  if (block.kind == BlockMixer::kTssa) tssa(block, own, narrow);
  if (block.kind == BlockMixer::kMeans) means(block, own);
  if (block.kind == BlockMixer::kDelta) delta(block, own);
  if (block.kind == BlockMixer::kSoftmax) softmax(block, own);
  if (!narrow_ || narrow) return;
  // As the output map reads the results.
  kernels::round_rows(mixed(), batch_ * tokens_, dim_, y_.mutable_data<uint16_t>());
}

// The results of a mixer that computes in float32.
float* LanguagePrefill::mixed() {
  return (narrow_ ? mixed_ : y_).mutable_data();
}

void LanguagePrefill::means(const LanguageBlockWeights& block, Arrays& own) {
  const MeansState state(block.means, batch_, own);
  const ScratchBlock workspace(size_t(mix_means_workspace(block.means, batch_, tokens_)));
  const MeansMix mix{.batch = batch_,
                     .tokens = tokens_,
                     .parts = w_.data(),
                     .pi = pi_.mutable_data(),
                     .base = base_.mutable_data(),
                     .y = mixed(),
                     .sums = state.sums,
                     .past = state.past};
  mix_means(block.means, mix, workspace.data(), engine_parallel);
}

void LanguagePrefill::delta(const LanguageBlockWeights& block, Arrays& own) {
  const auto& weights = block.delta;
  const DeltaState state(weights, batch_, own);
  DeltaMix mix{.tokens = tokens_,
               .parts = w_.data(),
               .beta = pi_.data(),
               .y = mixed(),
               .memory = state.memory,
               .past = state.past};
  if (block.forget.defined()) mix.forget = forget_.data();
  if (block.gate.defined()) mix.gate = gate_.data();
  engine_parallel(batch_ * weights.heads, [&](int64_t begin, int64_t end) {
    const ScratchBlock workspace(size_t(mix_delta_workspace(weights, tokens_)));
    for (int64_t i = begin; i < end; ++i) mix_delta(weights, mix, i, workspace.data());
  });
}

void LanguagePrefill::softmax(const LanguageBlockWeights& block, Arrays& own) {
  const auto& weights = block.softmax;
  SoftmaxState state(weights, batch_, tokens_, own);
  SoftmaxMix mix{.tokens = tokens_, .parts = w_.data(), .y = mixed(), .state = &state};
  if (block.gate.defined()) mix.gate = gate_.data();
  engine_parallel(batch_ * weights.heads, [&](int64_t begin, int64_t end) {
    const ScratchBlock workspace(size_t(mix_softmax_workspace(weights, tokens_, state.cached)));
    for (int64_t i = begin; i < end; ++i) mix_softmax(weights, mix, i, workspace.data());
  });
  state.keep();
}

void LanguagePrefill::tssa(const LanguageBlockWeights& block, Arrays& own, bool narrow) {
  const int64_t heads = weights_.config.heads, count = batch_ * tokens_ * dim_;
  const int threads = engine_threads();
  kernels::CausalForwardArgs a;
  a.shape = {batch_, tokens_, heads, dim_ / heads};
  a.dtype = narrow ? DType::kBfloat16 : DType::kFloat32;
  a.w = {w_.data<void>(), tokens_ * dim_, dim_};
  a.y = {narrow ? y_.mutable_data<void>() : mixed(), tokens_ * dim_, dim_};
  if (block.filter.defined()) {
    const Array::Shape earlier{batch_, block.filter.size(0) - 1, dim_};
    float* past = owned_state(own, "conv", earlier, TorchDtype::kFloat32).mutable_data();
    convolve_texts(block.filter, batch_, tokens_, w_.data(), past, base_.mutable_data());
    a.w.data = base_.data();
  }
  a.temp = block.temp.data();
  a.bias = {block.denom_bias.data(), block.denom_bias.size(1), state_->position};
  a.state = a.next_state =
      owned_state(own, "statistics", {batch_, 2 * dim_ + heads}, TorchDtype::kFloat64)
          .mutable_data<double>();
  const ScratchBlock workspace(size_t(kernels::causal_forward_workspace(a, threads)));
  kernels::causal_forward(a, workspace.data(), engine_parallel, threads);
  const auto scale = float(block.scale);
  if (narrow) {
    auto* y = y_.mutable_data<uint16_t>();
    for (int64_t i = 0; scale != 1 && i < count; ++i) {
      y[i] = to_bfloat16(from_bfloat16(y[i]) * scale);
    }
    return;
  }
  for (int64_t i = 0; scale != 1 && i < count; ++i) mixed()[i] *= scale;
  if (block.gate.defined()) multiply_by_silu(gate_.data(), count, mixed());
}

}  // namespace tost
