#include "tost/bench/memory_read.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "tost/base/error.h"
#include "tost/bench/timing.h"
#include "tost/ops/device.h"
#include "tost/torch.h"

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

double memory_read_ms(int64_t bytes, c10::Device device) {
  if (device.is_cpu()) return memory_read_ms(bytes);
  // Copies in turn of enough buffers that none is cached when it comes round again.
  const auto facts = gpu_facts(device.index());
  const int64_t beyond_caches = std::max<int64_t>(32 << 20, facts ? 8 * facts->l2_bytes : 0);
  const int64_t numbers = bytes / 8, count = std::clamp<int64_t>(beyond_caches / bytes, 1, 256);
  const auto whole = torch::dtype(torch::kLong).device(device);
  const auto from = torch::ones({count, numbers}, whole);
  auto to = torch::zeros({count, numbers}, whole);
  double best = 1e30;
  for (int round = 0; round < 7; ++round) {
    synchronize(device);
    const auto start = Clock::now();
    for (int64_t i = 0; i < count; ++i) to[i].copy_(from[i]);
    synchronize(device);
    best = std::min(best, ms_since(start) / double(count) / 2);
  }
  return best;
}

}  // namespace tost
