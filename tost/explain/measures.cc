#include "tost/explain/measures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tost {
namespace {

double log_choose(int64_t n, int64_t k) {
  return std::lgamma(double(n) + 1) - std::lgamma(double(k) + 1) - std::lgamma(double(n - k) + 1);
}

// Indices by falling score; NaN counts as lowest.
std::vector<size_t> falling_order(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  return order;
}

// Calls visit(inside, outside): tokens in and out of the mask of each run of equal scores, from the
// highest score down.
template <class Visit>
void for_each_tie(const std::vector<double>& scores, const TokenMask& mask, Visit visit) {
  const auto order = falling_order(scores);
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    int64_t inside = 0;
    while (end < order.size() &&
           (end == begin || scores[order[end]] == scores[order[begin]] ||
            (std::isnan(scores[order[end]]) && std::isnan(scores[order[begin]])))) {
      inside += mask[order[end++]] != 0;
    }
    visit(inside, int64_t(end - begin) - inside);
    begin = end;
  }
}

}  // namespace

int64_t area_of(const TokenMask& mask) {
  return std::count_if(mask.begin(), mask.end(), [](uint8_t value) { return value != 0; });
}

double intersection_over_union(const TokenMask& a, const TokenMask& b) {
  int64_t both = 0, either = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += a[i] && b[i];
    either += a[i] || b[i];
  }
  return either == 0 ? 1 : double(both) / double(either);
}

double chance_iou(int64_t tokens, int64_t area, int64_t object) {
  if (area == 0 && object == 0) return 1;
  double mean = 0;
  for (int64_t both = std::max<int64_t>(0, area + object - tokens); both <= std::min(area, object);
       ++both) {
    const double log_probability = log_choose(object, both) +
                                   log_choose(tokens - object, area - both) -
                                   log_choose(tokens, area);
    mean += std::exp(log_probability) * double(both) / double(area + object - both);
  }
  return mean;
}

double roc_auc(const std::vector<double>& scores, const TokenMask& mask) {
  const auto positives = double(area_of(mask)), negatives = double(mask.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nan("");
  double above = 0, seen = 0;
  for_each_tie(scores, mask, [&](int64_t inside, int64_t outside) {
    above += double(outside) * (seen + 0.5 * double(inside));
    seen += double(inside);
  });
  return above / (positives * negatives);
}

double average_precision(const std::vector<double>& scores, const TokenMask& mask) {
  const auto positives = double(area_of(mask));
  if (positives == 0) return std::nan("");
  double sum = 0, found = 0, taken = 0;
  for_each_tie(scores, mask, [&](int64_t inside, int64_t outside) {
    found += double(inside);
    taken += double(inside + outside);
    sum += double(inside) / positives * found / taken;
  });
  return sum;
}

torch::Tensor membership_entropy(const torch::Tensor& pi) {
  const auto p = pi.to(torch::kDouble);
  const int64_t heads = p.size(-2);
  const auto entropy = -torch::xlogy(p, p).sum(-2);
  return heads == 1 ? torch::zeros_like(entropy) : entropy / std::log(double(heads));
}

double standard_error(const Spread& spread) {
  if (spread.count < 2) return std::nan("");
  return spread.deviation / std::sqrt(double(spread.count - 1));
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  double sum = 0, squares = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++spread.count;
  }
  if (spread.count == 0) return spread;
  spread.mean = sum / double(spread.count);
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - spread.mean) * (value - spread.mean);
  }
  spread.deviation = std::sqrt(squares / double(spread.count));
  return spread;
}

Spread spread_of(const torch::Tensor& values) {
  const auto flat = values.to(torch::kDouble).flatten().contiguous();
  return spread_of(
      std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()));
}

}  // namespace tost
