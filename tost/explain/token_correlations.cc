#include "tost/explain/token_correlations.h"

#include <numbers>

namespace tost {

HeadCorrelations head_correlations(const torch::Tensor& w, const torch::Tensor& pi) {
  const int64_t batch = w.size(0), tokens = w.size(1), heads = pi.size(1);
  const int64_t width = w.size(2) / heads;
  const auto parts =
      w.to(torch::kDouble).view({batch, tokens, heads, width}).transpose(1, 2);  // [B, H, N, P]
  const auto weights = pi.to(torch::kDouble);
  const auto count = weights.sum(2).clamp_min(1e-300);
  const auto moments = (parts * weights.unsqueeze(3)).transpose(2, 3).matmul(parts) /
                       count.view({batch, heads, 1, 1});
  const auto scale = moments.diagonal(0, 2, 3).clamp_min(0).sqrt();
  const auto product = scale.unsqueeze(3) * scale.unsqueeze(2);
  HeadCorrelations result;
  result.absolute =
      torch::where(product > 0, moments / product.clamp_min(1e-300), torch::zeros_like(moments))
          .abs()
          .clamp_max(1);
  const auto diagonal = result.absolute.diagonal(0, 2, 3).sum(2);
  result.off_diagonal = (result.absolute.sum({2, 3}) - diagonal) / double(width * (width - 1));
  const auto effective = count.square() / weights.square().sum(2).clamp_min(1e-300);
  result.chance = (2 / (std::numbers::pi * effective.clamp_min(1e-300))).sqrt().clamp_max(1);
  return result;
}

}  // namespace tost
