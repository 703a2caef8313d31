#include "tost/explain/selection.h"

#include <algorithm>
#include <numeric>

#include "tost/base/error.h"

namespace tost {

std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what) {
  for (const int64_t number : wanted) {
    if (number >= 1 && number <= count) continue;
    if (count == 0) fail_usage("There is no ", what, " ", number, "; the model has none.");
    fail_usage("There is no ", what, " ", number, "; the model has ", count, " ", what,
               count == 1 ? "" : "s", ", counted from 1.");
  }
  std::vector<int64_t> chosen = wanted;
  if (chosen.empty()) {
    chosen.resize(size_t(count));
    std::iota(chosen.begin(), chosen.end(), 1);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::vector<int64_t> spread_numbers(int64_t count, int64_t most) {
  const int64_t shown = std::min(count, most);
  if (shown < 1) return {};
  if (shown == 1) return {count};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < shown; ++i) {
    numbers.push_back(1 + (i * (count - 1) + (shown - 1) / 2) / (shown - 1));
  }
  return numbers;
}

}  // namespace tost
