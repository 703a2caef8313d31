#include "tost/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "tost/base/random.h"

namespace tost {
namespace {

constexpr int64_t kRepeatedMultiple = 256;
constexpr uint64_t kOrderStream = 0x6f72646572;  // "order"

}  // namespace

int64_t epoch_length(int64_t size, const SamplerConfig& config) {
  if (config.repeats <= 1) return size;
  return std::max(size / kRepeatedMultiple * kRepeatedMultiple, std::min(size, kRepeatedMultiple));
}

std::vector<int64_t> epoch_order(int64_t size, const SamplerConfig& config, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (config.shuffle) {
    Random random(config.seed, kOrderStream, static_cast<uint64_t>(epoch));
    shuffle(order.data(), size, random);
  }
  std::vector<int64_t> places(static_cast<size_t>(epoch_length(size, config)));
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = order[i / static_cast<size_t>(std::max<int64_t>(config.repeats, 1))];
  }
  return places;
}

}  // namespace tost
