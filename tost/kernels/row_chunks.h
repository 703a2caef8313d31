// How rows are cut into chunks for sums over them, from the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tost/base/parallel.h"

namespace tost::kernels {

struct RowChunks {
  explicit RowChunks(int64_t all_rows)
      : rows(all_rows), size(std::max<int64_t>(32, (all_rows + 255) / 256)) {}

  int64_t count() const { return (rows + size - 1) / size; }
  int64_t begin(int64_t chunk) const { return chunk * size; }
  int64_t end(int64_t chunk) const { return std::min(rows, (chunk + 1) * size); }

  int64_t rows, size;
};

// sums[i] = the sum over chunks of parts[chunk * stride + i].
inline void add_chunks(const float* parts, int64_t chunks, int64_t stride, int64_t width,
                       float* sums) {
  std::fill(sums, sums + width, 0.0f);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const float* part = parts + chunk * stride;
    for (int64_t i = 0; i < width; ++i) sums[i] += part[i];
  }
}

// Whole chunks of rows for a thread at a time: run(args, first row, row after the last).
template <class Run, class Args>
void over_rows(Run run, const Args& args, int64_t rows, ParallelFor parallel) {
  const RowChunks chunks(rows);
  parallel(chunks.count(), [&](int64_t begin, int64_t end) {
    run(args, chunks.begin(begin), chunks.end(end - 1));
  });
}

// run(args, first chunk, chunk after the last). Returns the number of chunks.
template <class Run, class Args>
int64_t over_chunks(Run run, const Args& args, int64_t rows, ParallelFor parallel) {
  const int64_t count = RowChunks(rows).count();
  parallel(count, [&](int64_t begin, int64_t end) { run(args, begin, end); });
  return count;
}

}  // namespace tost::kernels
