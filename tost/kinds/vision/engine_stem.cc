#include "tost/kinds/vision/engine_stem.h"

#include <algorithm>
#include <cstring>

#include "tost/kernels/work_times.h"

namespace tost {
namespace {

constexpr int64_t kSide = 3;                   // of the kernel
constexpr int64_t kGatheredBytes = 256 << 10;  // of gathered pixels
constexpr int64_t kFewestRows = 32, kMostRows = 224;

// The input pixels that an output pixel looks at, from this one on, the border included.
struct Window {
  int64_t top, left;
};

// The pixels of one window, three at a time, zeros beyond the border. Returns the end.
template <class T>
T* gather_window(const StemCall& call, const Window& at, T* to) {
  const int64_t from = call.stage.from;
  const int64_t first = std::max<int64_t>(at.left, 0);
  const int64_t last = std::min(at.left + kSide, call.columns);
  for (int64_t ky = 0; ky < kSide; ++ky, to += kSide * from) {
    const int64_t y = at.top + ky;
    const bool inside = y >= 0 && y < call.rows;
    if (!inside || last - first < kSide) std::fill_n(to, kSide * from, T(0.0f));
    if (!inside) continue;
    const T* pixels = static_cast<const T*>(call.picture) + (y * call.columns + first) * from;
    std::memcpy(to + (first - at.left) * from, pixels, size_t((last - first) * from) * sizeof(T));
  }
  return to;
}

// The same of planes, where the window crosses no border. Each row but the last takes a fourth
// pixel along, which the next row replaces: one load and one store.
template <class T>
T* gather_inner_planes(const StemCall& call, const Window& at, T* to) {
  const T* plane = static_cast<const T*>(call.planes) + at.top * call.columns + at.left;
  const int64_t rows = call.stage.from * kSide;
  for (int64_t k = 0; k + 1 < rows; ++k, to += kSide) {
    const T* row = plane + (k / kSide * call.rows + k % kSide) * call.columns;
    std::memcpy(to, row, (kSide + 1) * sizeof(T));
  }
  const T* row = plane + ((call.stage.from - 1) * call.rows + kSide - 1) * call.columns;
  return std::copy_n(row, kSide, to);
}

template <class T>
T* gather_planes(const StemCall& call, const Window& at, T* to) {
  if (at.top >= 0 && at.left >= 0 && at.top + kSide <= call.rows &&
      at.left + kSide <= call.columns) {
    return gather_inner_planes(call, at, to);
  }
  for (int64_t c = 0; c < call.stage.from; ++c) {
    for (int64_t y = at.top; y < at.top + kSide; ++y) {
      const T* row = static_cast<const T*>(call.planes) + (c * call.rows + y) * call.columns;
      for (int64_t x = at.left; x < at.left + kSide; ++x) {
        const bool there = y >= 0 && y < call.rows && x >= 0 && x < call.columns;
        *to++ = there ? row[x] : T(0.0f);
      }
    }
  }
  return to;
}

template <class T>
void gather(const StemCall& call, int64_t first, int64_t count) {
  const int64_t stride = call.stage.stride, across = (call.columns - 1) / stride + 1;
  int64_t row = first / across, column = first % across;
  T* to = static_cast<T*>(call.gathered);
  for (int64_t i = 0; i < count; ++i) {
    const Window at{row * stride - 1, column * stride - 1};
    T* const next = to + call.stage.product.inputs();
    to = call.planes != nullptr ? gather_planes(call, at, to) : gather_window(call, at, to);
    std::fill(to, next, T(0.0f));
    to = next;
    if (++column == across) column = 0, ++row;
  }
}

}  // namespace

int64_t stem_tile_rows(const StemStage& stage) {
  const int64_t size = stage.product.packing() == Packing::kFloat32 ? 4 : 2;
  const int64_t fitting = kGatheredBytes / (stage.product.inputs() * size) / 16 * 16;
  return std::clamp(fitting, kFewestRows, kMostRows);
}

void run_stem_stage(const StemCall& call, int64_t first, int64_t count,
                    const PackedResult& result) {
  {
    const kernels::WorkTimer timer(kernels::Work::kGather);
    call.half ? gather<at::BFloat16>(call, first, count) : gather<float>(call, first, count);
  }
  const int64_t inputs = call.stage.product.inputs();
  call.stage.product.run({.rows = count, .data = call.gathered, .stride = inputs}, result,
                         call.scratch);
}

}  // namespace tost
