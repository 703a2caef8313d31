#include "tost/kinds/sequence/engine_plan.h"

#include <algorithm>

#include "tost/base/rounding.h"

namespace tost {
namespace {

constexpr int64_t kEvenTiles = 8;  // enough to share
constexpr int64_t kTilesTogether = 4;

}  // namespace

void SequencePlan::cut(const Batch& batch, int64_t extra, int64_t group_rows) {
  items.clear();
  groups.clear();
  for (int64_t i = 0; i < batch.batch; ++i) {
    SequenceItem item;
    item.ids = batch.ids + i * batch.stride;
    item.tokens = batch.lengths != nullptr ? batch.lengths[i] : batch.tokens;
    item.rows = item.tokens + extra;
    if (groups.empty() || groups.back().rows + item.rows > group_rows) {
      groups.push_back({.first = i});
    }
    SequenceGroup& group = groups.back();
    item.first = group.rows;
    ++group.count;
    group.rows += item.rows;
    group.longest = std::max(group.longest, item.rows);
    items.push_back(item);
  }
}

TileCut::TileCut(int64_t rows, int64_t least, int64_t most) {
  tiles = std::max({int64_t{1}, divide_up(rows, most), std::min(kEvenTiles, rows / least)});
  if (tiles > kTilesTogether) {
    tiles = divide_up(tiles, kTilesTogether) * kTilesTogether;
  } else if (tiles > 1) {
    tiles = divide_up(tiles, 2) * 2;
  }
  each = std::min(most, divide_up(divide_up(std::max<int64_t>(rows, 1), tiles), kLeast) * kLeast);
  tiles = divide_up(rows, each);
}

}  // namespace tost
