#include "tost/comm/sums.h"

#include <algorithm>

namespace tost {

using torch::Tensor;

bool add_up(Group* group, const std::vector<double*>& numbers, bool stopped) {
  if (group == nullptr) return !stopped;
  Tensor sums = torch::zeros({int64_t(numbers.size()) + 1}, torch::kDouble);
  auto* sum = sums.data_ptr<double>();
  for (size_t i = 0; i < numbers.size(); ++i) sum[i] = *numbers[i];
  sum[numbers.size()] = stopped ? 1 : 0;
  group->sum(sums);
  for (size_t i = 0; i < numbers.size(); ++i) *numbers[i] = sum[i];
  return sum[numbers.size()] == 0;
}

void add_up(Group* group, std::vector<int64_t>& counts) {
  if (group == nullptr || counts.empty()) return;
  group->sum(torch::from_blob(counts.data(), {int64_t(counts.size())}, torch::kLong));
}

std::vector<int64_t> gather_all(Group& group, const std::vector<int64_t>& mine) {
  const Tensor sizes = group.gather(torch::full({1}, int64_t(mine.size()), torch::kLong));
  Tensor room = torch::zeros({std::max<int64_t>(1, sizes.max().item<int64_t>())}, torch::kLong);
  std::ranges::copy(mine, room.data_ptr<int64_t>());
  const Tensor all = group.gather(room);
  std::vector<int64_t> result;
  for (int64_t rank = 0; rank < group.world(); ++rank) {
    const auto* from = all[rank].const_data_ptr<int64_t>();
    result.insert(result.end(), from, from + sizes[rank].item<int64_t>());
  }
  return result;
}

}  // namespace tost
