#include "tost/explain/measures.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/random.h"

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

// Calls visit(inside, outside) for each score, the highest first, with the numbers of tokens of
// this score inside and outside the mask.
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

std::vector<double> numbers_of(const torch::Tensor& values) {
  if (!values.defined()) return {};
  const auto flat = values.to(torch::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

Spread spread_of(const torch::Tensor& values) {
  return spread_of(numbers_of(values));
}

namespace {

using torch::Tensor;

Tensor as_points(const Tensor& points) {
  return points.to(torch::kDouble).nan_to_num(0, 0, 0);
}

// Computes squared distances [N, K] from differences, because the expanded square loses digits.
Tensor squared_distances(const Tensor& points, const Tensor& centers) {
  return torch::cdist(points, centers, 2, /*compute_mode=*/2).square();
}

// Draws an index with probability proportional to `weights`, uniformly if all are 0.
int64_t draw(const Tensor& weights, Random& random) {
  const auto sums = weights.cumsum(0);
  const double total = sums[-1].item<double>();
  if (!(total > 0)) return random.below(weights.size(0));
  const auto place = torch::tensor({random.uniform() * total}, torch::kDouble);
  const int64_t index = torch::searchsorted(sums, place, false, /*right=*/true).item<int64_t>();
  return std::min(index, weights.size(0) - 1);
}

Tensor first_centers(const Tensor& points, int64_t clusters, Random& random) {
  std::vector<Tensor> centers{points[random.below(points.size(0))]};
  auto nearest = squared_distances(points, centers[0].unsqueeze(0)).squeeze(1);
  while (int64_t(centers.size()) < clusters) {
    centers.push_back(points[draw(nearest, random)]);
    const auto last = squared_distances(points, centers.back().unsqueeze(0)).squeeze(1);
    nearest = torch::minimum(nearest, last);
  }
  return torch::stack(centers);
}

Tensor means_of(const Tensor& points, const Tensor& labels, const Tensor& centers) {
  const auto sums = torch::zeros_like(centers).index_add(0, labels, points);
  const auto counts = torch::bincount(labels, {}, centers.size(0)).to(torch::kDouble).unsqueeze(1);
  return torch::where(counts > 0, sums / counts.clamp_min(1), centers);
}

KMeans run_once(const Tensor& points, const KMeansConfig& config, Random& random) {
  KMeans result;
  result.centers = first_centers(points, std::min(config.clusters, points.size(0)), random);
  for (int64_t round = 0; round <= config.rounds; ++round) {
    const auto labels = nearest_centers(points, result.centers);
    const bool converged = result.labels.defined() && torch::equal(labels, result.labels);
    result.labels = labels;
    if (converged || round == config.rounds) break;
    result.centers = means_of(points, labels, result.centers);
  }
  result.inertia =
      (points - result.centers.index_select(0, result.labels)).square().sum().item<double>();
  return result;
}

}  // namespace

Tensor nearest_centers(const Tensor& points, const Tensor& centers) {
  return squared_distances(as_points(points), centers).argmin(1);
}

KMeans k_means(const Tensor& points, const KMeansConfig& config) {
  if (points.dim() != 2 || points.size(0) < 1 || config.clusters < 1) {
    fail_usage("k-means needs points [N, D] with N at least 1 and at least 1 cluster, found ",
               points.sizes(), " and ", config.clusters, ".");
  }
  const auto clean = as_points(points);
  KMeans best;
  for (int64_t restart = 0; restart < std::max<int64_t>(config.restarts, 1); ++restart) {
    Random random(config.seed, uint64_t(restart));
    KMeans found = run_once(clean, config, random);
    if (restart == 0 || found.inertia < best.inertia) best = std::move(found);
  }
  return best;
}

namespace {

constexpr double kNegligible = 1e-6;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t rank_of(const Tensor& values) {
  const double largest = values.max().item<double>();
  return largest > 0 ? (values > kNegligible * largest).sum().item<int64_t>() : 0;
}

double effective_rank_of(const Tensor& values) {
  const double sum = values.sum().item<double>();
  if (!(sum > 0)) return 0;
  const auto share = values / sum;
  return std::exp(-torch::xlogy(share, share).sum().item<double>());
}

int64_t energy_rank_of(const Tensor& values) {
  const auto energy = values.square().cumsum(0);
  const double total = energy[-1].item<double>();
  return total > 0 ? (energy < 0.99 * total).sum().item<int64_t>() + 1 : 0;
}

Tensor overlap_of(const std::vector<Tensor>& bases) {
  const auto heads = int64_t(bases.size());
  auto overlap = torch::full({heads, heads}, kNaN, torch::kDouble);
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t l = 0; l < heads; ++l) {
      const auto &a = bases[size_t(k)], &b = bases[size_t(l)];
      const int64_t smaller = std::min(a.size(1), b.size(1));
      if (smaller > 0) overlap[k][l] = a.t().matmul(b).square().sum() / smaller;
    }
  }
  return overlap;
}

}  // namespace

HeadSpectra head_spectra(const Tensor& weights) {
  const auto u = weights.detach().to(torch::kDouble);
  const int64_t heads = u.size(0), width = u.size(1), head_width = u.size(2);
  HeadSpectra result;
  result.chance_overlap = double(head_width) / double(width);
  result.mean_overlap = result.effective_rank = result.basis_effective_rank = kNaN;
  if (!torch::isfinite(u).all().item<bool>()) return result;
  const auto [left, values, right] = torch::linalg_svd(u, /*full_matrices=*/false);
  std::vector<Tensor> bases;
  for (int64_t k = 0; k < heads; ++k) {
    bases.push_back(left[k].narrow(1, 0, rank_of(values[k])));
  }
  result.singular_values = values;
  result.overlap = overlap_of(bases);
  if (heads > 1) {
    const auto others = ~torch::eye(heads, torch::kBool);
    result.mean_overlap = result.overlap.masked_select(others).mean().item<double>();
  }
  result.sum_values = torch::linalg_svdvals(u.permute({1, 0, 2}).reshape({width, -1}));
  const auto joined = torch::cat(bases, 1);
  result.basis_values =
      joined.size(1) > 0 ? torch::linalg_svdvals(joined) : torch::zeros({1}, torch::kDouble);
  result.rank = rank_of(result.sum_values);
  result.effective_rank = effective_rank_of(result.sum_values);
  result.basis_effective_rank = effective_rank_of(result.basis_values);
  result.energy_rank = energy_rank_of(result.sum_values);
  return result;
}

}  // namespace tost
