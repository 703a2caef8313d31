#include "tost/comm/sums.h"

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

}  // namespace tost
