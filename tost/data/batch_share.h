// The share of one process in the batches of a run and the rows of a batch. Free of torch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tost {

// The `per_step` batches of a step are distributed round-robin. With more processes than batches,
// equal numbers of consecutive processes share a batch, each with a part of its rows.
struct BatchShare {
  int64_t per_step = 1;
  int64_t rank = 0, world = 1;
  // Processes that divide the tokens of rows count as one process.
  int64_t token_part = 0, token_parts = 1;

  // The number of processes that share a batch, and the index of this process among them.
  int64_t parts() const { return std::max<int64_t>(1, world / per_step); }
  int64_t part() const { return rank % parts(); }
  // `batch` counts from the beginning of an epoch.
  bool is_local(int64_t batch) const {
    return batch % per_step % std::min(world, per_step) == rank / parts();
  }
  // The first batch of this process from `batch` on.
  int64_t next(int64_t batch) const {
    while (!is_local(batch)) ++batch;
    return batch;
  }
  int64_t first_row(int64_t rows) const { return rows * part() / parts(); }
  int64_t rows(int64_t of) const { return of * (part() + 1) / parts() - first_row(of); }
};

}  // namespace tost
