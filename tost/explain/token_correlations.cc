#include "tost/explain/token_correlations.h"

#include <numbers>

namespace tost {
namespace {

using torch::Tensor;

// |r| of second moments [..., P, P].
Tensor absolute_correlation(const Tensor& moments) {
  const auto variance = moments.diagonal(0, -2, -1);
  // Below rounding of the largest feature there is no spread to speak of.
  const auto least = 1e-12 * variance.amax(-1, /*keepdim=*/true);
  const auto scale = torch::where(variance > least, variance, torch::zeros_like(variance)).sqrt();
  const auto product = scale.unsqueeze(-1) * scale.unsqueeze(-2);
  const auto r = moments / product.clamp_min(1e-300);
  return torch::where(product > 0, r, torch::zeros_like(r)).abs().clamp_max(1);
}

Tensor mean_off_diagonal(const Tensor& matrices) {
  const auto width = double(matrices.size(-1));
  const auto diagonal = matrices.diagonal(0, -2, -1).sum(-1);
  return (matrices.sum({-2, -1}) - diagonal) / (width * (width - 1));
}

}  // namespace

HeadCorrelations head_correlations(const Tensor& w, const Tensor& pi) {
  const int64_t batch = w.size(0), tokens = w.size(1), heads = pi.size(1);
  const int64_t width = w.size(2) / heads;
  const auto parts =
      w.to(torch::kDouble).view({batch, tokens, heads, width}).transpose(1, 2);  // [B, H, N, P]
  const auto weights = pi.to(torch::kDouble);
  const auto count = weights.sum(2).clamp_min(1e-300);
  const auto share = (weights / count.unsqueeze(2)).unsqueeze(3);
  const auto mean = (parts * share).sum(2, /*keepdim=*/true);
  const auto moments_of = [&](const Tensor& values) {
    return (values * share).transpose(2, 3).matmul(values);
  };
  HeadCorrelations result;
  result.absolute = absolute_correlation(moments_of(parts));
  result.centered = absolute_correlation(moments_of(parts - mean));
  result.off_diagonal = mean_off_diagonal(result.absolute);
  result.centered_off_diagonal = mean_off_diagonal(result.centered);
  const auto effective = count.square() / weights.square().sum(2).clamp_min(1e-300);
  result.chance = (2 / (std::numbers::pi * effective.clamp_min(1e-300))).sqrt().clamp_max(1);
  return result;
}

}  // namespace tost
