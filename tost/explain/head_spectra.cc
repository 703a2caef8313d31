#include "tost/explain/head_spectra.h"

#include <cmath>
#include <limits>
#include <vector>

namespace tost {
namespace {

using torch::Tensor;

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
