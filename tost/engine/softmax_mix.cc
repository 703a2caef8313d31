#include <algorithm>
#include <cmath>

#include "tost/base/checked.h"
#include "tost/engine/mixers.h"
#include "tost/kernels/attend_rows.h"

namespace tost {
namespace {

// The tokens for which a cache [B, H, n, P] has memory that may be changed; 0 if it must be copied.
int64_t room_of(const Array& cache) {
  const auto& s = cache.shape();
  if (!cache.unique() || !cache.made_here()) return 0;
  const int64_t room = cache.held_bytes() / (int64_t{sizeof(float)} * s[0] * s[1] * s[3]);
  if (cache.strides().empty()) return s[0] * s[1] == 1 || room == s[2] ? room : 0;
  const Array::Shape whole{s[1] * room * s[3], room * s[3], s[3], 1};
  return cache.strides() == whole ? room : 0;
}

// The first `count` tokens of a cache with this room.
Array cache_of(const Array& cache, int64_t count, int64_t room) {
  const auto& s = cache.shape();
  return {{s[0], s[1], count, s[3]},
          TorchDtype::kFloat32,
          cache.owner(),
          {s[1] * room * s[3], room * s[3], s[3], 1},
          int64_t{sizeof(float)} * s[0] * s[1] * room * s[3]};
}

// Twice the length is taken, so that most tokens need no copy of the cache.
SoftmaxState::Cache with_room(Array& cache, int64_t count, bool window) {
  int64_t room = room_of(cache);
  if (room >= count && (!window || room <= 4 * count)) return {&cache, room};
  const Array from = cache.contiguous();
  const auto& s = from.shape();
  room = s[2] == 0 ? count : 2 * count;
  Array all = Array::empty({s[0], s[1], room, s[3]});
  for (int64_t i = 0; i < s[0] * s[1]; ++i) {
    std::copy_n(from.data() + i * s[2] * s[3], s[2] * s[3], all.mutable_data() + i * room * s[3]);
  }
  cache = cache_of(all, s[2], room);
  return {&cache, room};
}

}  // namespace

SoftmaxState::SoftmaxState(const SoftmaxWeights& w, int64_t batch, int64_t tokens, Arrays& state)
    : cached(0) {
  for (Cache* cache : {&keys, &values}) {
    Array& array = state[cache == &keys ? "k" : "v"];
    Array::Shape sizes{batch, w.heads, cached, w.dim / w.heads};
    if (!array.defined()) array = Array::empty(sizes);
    if (cache == &keys && array.shape().size() == sizes.size()) cached = sizes[2] = array.size(2);
    check_state(array, sizes, TorchDtype::kFloat32);
    *cache = with_room(array, cached + tokens, w.window > 0);
  }
  kept = w.window > 0 ? std::min(cached + tokens, w.window - 1) : cached + tokens;
  if (!w.filter.defined()) return;
  const Array::Shape earlier{batch, w.filter.size(0) - 1, 3 * w.dim};
  past = owned_state(state, "conv", earlier, TorchDtype::kFloat32).mutable_data();
}

void SoftmaxState::keep() {
  for (const Cache& cache : {keys, values}) *cache.array = cache_of(*cache.array, kept, cache.room);
}

int64_t mix_softmax_workspace(const SoftmaxWeights& w, int64_t tokens, int64_t cached) {
  const int64_t numbers = kernels::kAttendTogether * (cached + tokens) + tokens * w.dim / w.heads;
  return aligned(numbers * int64_t{sizeof(float)});
}

void mix_softmax(const SoftmaxWeights& w, const SoftmaxMix& mix, int64_t index, void* workspace) {
  const int64_t width = w.dim / w.heads, row = 3 * w.dim, tokens = mix.tokens;
  const int64_t text = index / w.heads, column = index % w.heads * width;
  const SoftmaxState& s = *mix.state;
  const int64_t rows = s.cached + tokens;
  const float* parts = mix.parts + text * tokens * row;
  float* const past = w.filter.defined() ? s.past + text * (w.filter.size(0) - 1) * row : nullptr;
  auto* const weights = static_cast<float*>(workspace);
  float* const q = weights + kernels::kAttendTogether * rows;
  float* const k = s.keys.array->mutable_data() + index * s.keys.room * width;
  float* const v = s.values.array->mutable_data() + index * s.values.room * width;
  Channels channels{column, width};
  for (float* to : {q, k + s.cached * width, v + s.cached * width}) {
    for (int64_t t = 0; t < tokens; ++t) {
      float* token = to + t * width;
      if (past != nullptr) {
        convolve_channels(w.filter, parts, row, past, t, channels, token);
      } else {
        std::copy_n(parts + t * row + channels.first, width, token);
      }
    }
    if (past != nullptr) store_channels(w.filter, parts, row, tokens, channels, past);
    channels.first += w.dim;
  }
  float* const y = mix.y + text * tokens * w.dim + column;
  kernels::AttendRowsArgs a{rows, width, tokens, k, width};
  a.query = q;
  a.scale = 1 / std::sqrt(float(width));
  a.weights = weights;
  a.out = y;
  a.values = v;
  a.values_stride = width;
  a.out_stride = w.dim;
  a.causal = true;
  a.window = w.window;
  kernels::attend_rows(a);
  for (int64_t t = 0; t < tokens && mix.gate != nullptr; ++t) {
    multiply_by_silu(mix.gate + (text * tokens + t) * w.dim + column, width, y + t * w.dim);
  }
  if (s.kept == rows) return;
  for (float* cache : {k, v}) {
    std::copy_n(cache + (rows - s.kept) * width, s.kept * width, cache);
  }
}

}  // namespace tost
