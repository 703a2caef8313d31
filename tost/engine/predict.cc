#include "tost/engine/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"

namespace tost {

std::vector<double> softmax(const float* logits, int64_t count) {
  const float most = *std::max_element(logits, logits + count);
  std::vector<double> shares(logits, logits + count);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - most);
  for (double& share : shares) share /= sum;
  return shares;
}

bool ranks_before(double a, double b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

std::vector<RankedClass> rank_classes(const std::vector<double>& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k) {
  if (top_k < 1) fail_usage("top is ", top_k, " but must be at least 1.");
  std::vector<size_t> labels(probabilities.size());
  std::iota(labels.begin(), labels.end(), size_t(0));
  std::stable_sort(labels.begin(), labels.end(), [&](size_t a, size_t b) {
    return ranks_before(probabilities[a], probabilities[b]);
  });
  std::vector<RankedClass> top;
  for (const size_t label : labels) {
    if (int64_t(top.size()) == top_k) break;
    top.push_back({int64_t(label), classes[label], probabilities[label]});
  }
  return top;
}

void to_json(nlohmann::json& to, const RankedClass& ranked) {
  to = {{"label", ranked.label},
        {"class", ranked.name},
        {"probability", number_or_null(ranked.probability)}};
}

Precision chosen_precision(const std::string& requested, Precision stored,
                           const Precisions& known) {
  if (!requested.empty()) return precision_from_name(requested, known);
  return std::find(known.begin(), known.end(), stored) != known.end() ? stored : Precision::kFp32;
}

}  // namespace tost
