#include "tost/bench/memory_read.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>

#include "tost/base/error.h"
#include "tost/bench/timing.h"

namespace tost {
namespace {

// Every word once, in 32 independent sums, so that nothing but memory limits it.
uint64_t sum_words(const uint64_t* words, int64_t begin, int64_t end) {
  uint64_t sums[32] = {};
  int64_t i = begin;
  for (; i + 32 <= end; i += 32) {
    for (int64_t j = 0; j < 32; ++j) sums[j] += words[i + j];
  }
  for (; i < end; ++i) sums[0] += words[i];
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double memory_read_ms(int64_t bytes) {
  const auto buffer = torch::ones({bytes / 8}, torch::kLong);
  const auto* words = reinterpret_cast<const uint64_t*>(buffer.const_data_ptr<int64_t>());
  double best = 1e30;
  for (int round = 0; round < 7; ++round) {
    std::atomic<uint64_t> total{0};
    const auto start = Clock::now();
    at::parallel_for(0, buffer.numel(), buffer.numel() / at::get_num_threads() + 1,
                     [&](int64_t begin, int64_t end) { total += sum_words(words, begin, end); });
    best = std::min(best, ms_since(start));
    if (total != uint64_t(buffer.numel())) fail_data("The read of memory went wrong.");
  }
  return best;
}

}  // namespace tost
