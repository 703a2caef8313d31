#include "tost/kinds/sequence/engine_tokens.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa.h"
#include "tost/nn/device_autocast.h"

namespace tost {

SequencePass::SequencePass(const Setting& setting, const SequencePlan& plan,
                           SequenceWorkspace& workspace, const SequenceGroup& group, size_t region)
    : set_(setting),
      plan_(plan),
      group_(group),
      workspace_(workspace),
      region_(workspace.regions[region]),
      pass_(setting.config.dim, setting.weights.blocks[0].fc1.packing(), region_.rows,
            workspace.scratch),
      cut_(group.rows, setting.least, setting.most) {}

template <class Body>
void SequencePass::for_tiles(const TileCut& cut, int64_t rows, ParallelFor parallel,
                             const Body& body) const {
  parallel(cut.tiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      body(t, Rows{t * cut.each, std::min(cut.each, rows - t * cut.each)});
    }
    PackedLinear::release();
  });
}

int64_t SequencePass::item_of(int64_t row) const {
  const auto begin = plan_.items.begin() + group_.first, end = begin + group_.count;
  const auto next = std::upper_bound(
      begin, end, row, [](int64_t r, const SequenceItem& each) { return r < each.first; });
  return next - begin - 1;
}

void SequencePass::run(ParallelFor parallel, int64_t threads, float* pooled) const {
  const auto& blocks = set_.weights.blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const float* shift = i > 0 ? data(blocks[i - 1].fc2_shift) : nullptr;
    // One block's end and the next one's beginning touch the same rows.
    for_tiles(cut_, group_.rows, parallel, [&](int64_t, Rows rows) {
      i > 0 ? pass_.back(blocks[i - 1], rows, blocks[i].in.ahead()) : embed(rows);
      pass_.front(blocks[i], shift, rows, blocks[i].out.ahead());
    });
    mix(blocks[i], shift, parallel, threads);
  }
  set_.config.pool == "class" ? pool_class_tokens(parallel, pooled) : pool_means(parallel, pooled);
}

void SequencePass::embed(Rows rows) const {
  const int64_t dim = set_.config.dim, extra = set_.weights.class_token.defined() ? 1 : 0;
  const float* table = data(set_.weights.tokens);
  int64_t index = item_of(rows.first);
  for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
    if (r >= item(index).first + item(index).rows) ++index;
    const int64_t place = r - item(index).first;
    const float* from = place < extra ? data(set_.weights.class_token)
                                      : table + item(index).ids[place - extra] * dim;
    float* to = pass_.stream(r);
    if (set_.positions == nullptr) {
      std::copy_n(from, dim, to);
      continue;
    }
    const float* position = set_.positions + place * dim;
    for (int64_t c = 0; c < dim; ++c) to[c] = from[c] + position[c];
  }
}

void SequencePass::mix(const TokenBlockWeights& block, const float* shift, ParallelFor parallel,
                       int64_t threads) const {
  if (block.mixer == EngineMixer::kNone) return;
  if (block.mixer == EngineMixer::kModule) return mix_by_module(block, shift);
  if (group_.count >= threads) {
    parallel(group_.count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) mix_item(block, item(i), serial_for, 1);
    });
  } else {
    for (int64_t i = 0; i < group_.count; ++i) mix_item(block, item(i), parallel, threads);
  }
}

void SequencePass::mix_item(const TokenBlockWeights& block, const SequenceItem& item,
                            ParallelFor parallel, int64_t threads) const {
  const int64_t dim = set_.config.dim, heads = set_.config.heads;
  kernels::TssaForwardArgs args;
  args.shape = {1, item.rows, heads, dim / heads};
  args.dtype = pass_.dtype();
  args.w = {pass_.at(region_.rows.projected, item.first, dim), item.rows * dim, dim};
  args.temp = data(block.temp);
  args.y = {pass_.at(region_.rows.mixed, item.first, dim), item.rows * dim, dim};
  kernels::tssa_forward(args, workspace_.tssa[static_cast<size_t>(at::get_thread_num())], parallel,
                        static_cast<int>(threads));
}

// Normalised tokens, padded, through the mixer's own forward, onto the stream.
void SequencePass::mix_by_module(const TokenBlockWeights& block, const float* shift) const {
  const int64_t dim = set_.config.dim;
  const c10::InferenceMode no_grad;
  auto x = torch::zeros({group_.count, group_.longest, dim});
  auto lengths = torch::empty({group_.count}, torch::kLong);
  auto* length = lengths.mutable_data_ptr<int64_t>();
  auto* rows = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < group_.count; ++i) {
    length[i] = item(i).rows;
    auto norm = pass_.norm_args(block.norm1, shift, {item(i).first, item(i).rows});
    norm.y = rows + i * group_.longest * dim;
    kernels::norm_rows(norm);
  }
  if (group_.rows == group_.count * group_.longest) lengths.reset();  // nothing is padded
  torch::Tensor y;
  {
    const DeviceAutocast autocast(pass_.half() ? Autocast::kBfloat16 : Autocast::kAsItIs);
    y = block.module->forward(x, {.trace = nullptr, .lengths = lengths});
  }
  y = y.to(torch::kFloat).contiguous();
  for (int64_t i = 0; i < group_.count; ++i) {
    pass_.add_rows(y.const_data_ptr<float>() + i * group_.longest * dim, block.gamma1,
                   {item(i).first, item(i).rows});
  }
}

// The tile's part of each sum over a sequence has a row of its own: tile and item both grow from
// part to part, so their sum numbers them.
void SequencePass::mean_rows(int64_t tile, Rows rows) const {
  const int64_t dim = set_.config.dim;
  pass_.norm(set_.weights.norm, data(set_.weights.blocks.back().fc2_shift), rows,
             /*as_float=*/true);
  const auto* normed = static_cast<const float*>(pass_.scratch().normed);
  int64_t index = item_of(rows.first);
  float* sum = nullptr;
  for (int64_t r = 0; r < rows.count; ++r, normed += dim) {
    if (rows.first + r >= item(index).first + item(index).rows) ++index, sum = nullptr;
    if (sum == nullptr) {
      sum = region_.partial + (tile + index) * dim;
      std::copy_n(normed, dim, sum);
      continue;
    }
    for (int64_t c = 0; c < dim; ++c) sum[c] += normed[c];
  }
}

void SequencePass::pool_means(ParallelFor parallel, float* pooled) const {
  const int64_t dim = set_.config.dim;
  for_tiles(cut_, group_.rows, parallel, [&](int64_t tile, Rows rows) {
    pass_.back(set_.weights.blocks.back(), rows);
    mean_rows(tile, rows);
  });
  for (int64_t i = 0; i < group_.count; ++i) {
    const int64_t first = item(i).first / cut_.each;
    const int64_t last = (item(i).first + item(i).rows - 1) / cut_.each;
    float* to = pooled + (group_.first + i) * dim;
    std::copy_n(region_.partial + (first + i) * dim, dim, to);
    for (int64_t t = first + 1; t <= last; ++t) {
      const float* part = region_.partial + (t + i) * dim;
      for (int64_t c = 0; c < dim; ++c) to[c] += part[c];
    }
    for (int64_t c = 0; c < dim; ++c) to[c] /= static_cast<float>(item(i).rows);
  }
}

// Of the last block's results nothing but these rows is read.
void SequencePass::pool_class_tokens(ParallelFor parallel, float* pooled) const {
  const int64_t dim = set_.config.dim;
  const TokenBlockWeights& last = set_.weights.blocks.back();
  const BlockRows &rows = region_.rows, &heads = region_.heads;
  const auto bytes = static_cast<size_t>(dim * pass_.size());
  for (int64_t i = 0; i < group_.count; ++i) {
    const int64_t row = item(i).first;
    std::copy_n(pass_.stream(row), dim, heads.stream + i * dim);
    if (last.mixer == EngineMixer::kModule) continue;
    const bool none = last.mixer == EngineMixer::kNone;
    std::memcpy(pass_.at(none ? heads.projected : heads.mixed, i, dim),
                pass_.at(none ? rows.projected : rows.mixed, row, dim), bytes);
  }
  const BlockPass pass(dim, last.fc1.packing(), heads, workspace_.scratch);
  const TileCut cut(group_.count, set_.least, set_.most);
  for_tiles(cut, group_.count, parallel, [&](int64_t, Rows own) {
    pass.back(last, own);
    pass.norm(set_.weights.norm, data(last.fc2_shift), own, /*as_float=*/true);
    std::copy_n(static_cast<const float*>(pass.scratch().normed), own.count * dim,
                pooled + (group_.first + own.first) * dim);
  });
}

}  // namespace tost
