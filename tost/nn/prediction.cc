#include "tost/nn/prediction.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"

namespace tost {

std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k) {
  if (top_k < 1) fail_usage("top is ", top_k, " but must be at least 1.");
  const auto [sorted, labels] = probabilities.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  std::vector<RankedClass> top;
  for (int64_t k = 0; k < std::min(top_k, sorted.size(0)); ++k) {
    const int64_t label = labels[k].item<int64_t>();
    top.push_back({label, classes[size_t(label)], sorted[k].item<double>()});
  }
  return top;
}

nlohmann::json to_json(const RankedClass& ranked) {
  const double p = ranked.probability;
  return {{"label", ranked.label},
          {"class", ranked.name},
          {"probability", std::isfinite(p) ? nlohmann::json(p) : nlohmann::json()}};
}

nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t k = 0; k < classes.size(); ++k) {
    const auto row = confusion[int64_t(k)];
    const int64_t count = row.sum().item<int64_t>(), right = row[int64_t(k)].item<int64_t>();
    rows.push_back(
        {{"class", classes[k]},
         {items, count},
         {"top1", count > 0 ? nlohmann::json(double(right) / double(count)) : nlohmann::json()}});
  }
  return rows;
}

}  // namespace tost
