#include "tost/ops/coding_rate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"

namespace tost {
namespace {

using at::Tensor;

void check_scale(double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) {
    fail_usage("coding rate: the scale is ", scale, "; it must be positive and finite.");
  }
}

void check_tokens(const Tensor& x, const char* name) {
  if (!x.defined() || x.dim() < 2) {
    fail_usage("coding rate: ", name, " must be [..., tokens, channels], but has ",
               x.defined() ? x.dim() : 0, " dimensions.");
  }
  if (!x.is_floating_point()) {
    fail_usage("coding rate: ", name, " must be of a floating-point dtype, but is ",
               x.scalar_type(), ".");
  }
  if (x.size(-2) < 1 || x.size(-1) < 1) {
    fail_usage("coding rate: ", name, " is ", x.sizes(),
               "; it needs at least one token and one channel.");
  }
}

void check_membership(const Tensor& x, const char* name, const Tensor& pi) {
  check_tokens(x, name);
  bool fits = pi.defined() && pi.dim() == x.dim() && pi.size(-1) == x.size(-2) && pi.size(-2) > 0;
  for (int64_t i = 0; fits && i < x.dim() - 2; ++i) fits = pi.size(i) == x.size(i);
  if (!fits) {
    fail_usage("coding rate: pi must be [..., heads, tokens] for ", name, " ", x.sizes(), ", but ",
               pi.defined() ? cat("is ", pi.sizes()) : "is undefined", ".");
  }
  if (!pi.is_floating_point()) {
    fail_usage("coding rate: pi must be of a floating-point dtype, but is ", pi.scalar_type(), ".");
  }
}

void check_heads(const Tensor& w, int64_t heads) {
  if (heads < 1 || w.size(-1) % heads != 0) {
    fail_usage("coding rate: the ", w.size(-1), " channels of w cannot be split over ", heads,
               " heads; choose a number of heads that divides the channels.");
  }
}

void check_subspaces(const Tensor& z, const Tensor& u) {
  check_tokens(z, "z");
  if (!u.defined() || u.dim() != 3 || u.size(1) != z.size(-1) || u.numel() == 0) {
    fail_usage("coding rate: u must be [heads, ", z.size(-1), ", width] for z ", z.sizes(),
               ", but ", u.defined() ? cat("is ", u.sizes()) : "is undefined", ".");
  }
  if (!u.is_floating_point()) {
    fail_usage("coding rate: u must be of a floating-point dtype, but is ", u.scalar_type(), ".");
  }
}

// Splits w [..., N, H P] into heads [..., H, N, P], in float64.
Tensor split_heads(const Tensor& w, int64_t heads) {
  return w.to(at::kDouble).unflatten(-1, {heads, w.size(-1) / heads}).transpose(-3, -2);
}

// The inverse of split_heads.
Tensor merge_heads(const Tensor& split) {
  return split.transpose(-3, -2).flatten(-2);
}

// Memberships and their sums, as constants in float64.
struct Groups {
  Tensor pi;     // [..., H, N]
  Tensor share;  // n_k / N [..., H]
  Tensor mean;   // pi / n_k, 0 for an empty group [..., H, N]
};

Groups groups_of(const Tensor& membership) {
  Groups g;
  g.pi = membership.detach().to(at::kDouble);
  const auto count = g.pi.sum(-1);
  g.share = count / g.pi.size(-1);
  g.mean = g.pi / at::where(count > 0, count, at::ones_like(count)).unsqueeze(-1);
  return g;
}

// Computes logdet(I + aᵀa) over the last two dimensions. Singular values below the rounding error
// of the largest one count as 0, so that the rank does not depend on the scale. Computes no
// singular vectors, so that equal and zero singular values have a gradient.
Tensor log_det(const Tensor& a) {
  const auto finite = a.isfinite().all(-1).all(-1);
  const auto safe = at::where(finite.unsqueeze(-1).unsqueeze(-1), a, at::zeros_like(a));
  const auto values = at::linalg_svdvals(safe);
  const double rounding =
      std::numeric_limits<double>::epsilon() * double(std::max(a.size(-2), a.size(-1)));
  const auto least = values.detach().amax({-1}, /*keepdim=*/true) * rounding;
  const auto counted = at::where(values > least, values, at::zeros_like(values));
  const auto nan = at::full({}, std::numeric_limits<double>::quiet_NaN(), a.options());
  return at::where(finite, at::log1p(counted.square()).sum(-1), nan);
}

// Each head's second moments, the diagonal of w_kᵀ Diag(pi_k) w_k / n_k: [..., H, P].
Tensor moments(const Tensor& split, const Groups& groups) {
  return (split.square() * groups.mean.unsqueeze(-1)).sum(-2);
}

}  // namespace

Tensor coding_rate(const Tensor& z, double scale) {
  check_scale(scale);
  check_tokens(z, "z");
  return 0.5 * log_det(z.to(at::kDouble) * std::sqrt(scale / double(z.size(-2))));
}

Tensor compression_rate(const Tensor& z, const Tensor& pi, double scale) {
  check_scale(scale);
  check_membership(z, "z", pi);
  const auto groups = groups_of(pi);
  const auto wide = z.to(at::kDouble);
  const auto weights = (groups.mean * scale).sqrt().unsqueeze(-1);
  Tensor sum;
  for (int64_t k = 0; k < pi.size(-2); ++k) {  // one group at a time bounds the memory
    const auto rate = groups.share.select(-1, k) * log_det(wide * weights.select(-3, k));
    sum = sum.defined() ? sum + rate : rate;
  }
  return 0.5 * sum;
}

Tensor head_compression_rate(const Tensor& w, const Tensor& pi, double scale) {
  check_scale(scale);
  check_membership(w, "w", pi);
  check_heads(w, pi.size(-2));
  const auto groups = groups_of(pi);
  const auto weights = (groups.mean * scale).sqrt().unsqueeze(-1);
  return 0.5 * (groups.share * log_det(split_heads(w, pi.size(-2)) * weights)).sum(-1);
}

Tensor compression_bound(const Tensor& w, const Tensor& pi, double scale) {
  check_scale(scale);
  check_membership(w, "w", pi);
  check_heads(w, pi.size(-2));
  const auto groups = groups_of(pi);
  const auto rates = at::log1p(scale * moments(split_heads(w, pi.size(-2)), groups)).sum(-1);
  return 0.5 * (groups.share * rates).sum(-1);
}

Tensor project_heads(const Tensor& z, const Tensor& u) {
  check_subspaces(z, u);
  return merge_heads(at::matmul(z.to(at::kDouble).unsqueeze(-3), u.to(at::kDouble)));
}

Tensor unit_heads(const Tensor& w, int64_t heads) {
  check_tokens(w, "w");
  check_heads(w, heads);
  const auto split = split_heads(w, heads);
  const auto norm = split.norm(2, at::IntArrayRef{-1}, /*keepdim=*/true);
  return merge_heads(split / at::where(norm < 1e-12, at::ones_like(norm), norm));
}

}  // namespace tost
