// Computes TSSA in float64 for long inputs, block by block.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/ops/plain.h"
#include "tost/ops/tssa.h"
#include "tost/ops/tssa_causal.h"
#include "tost/study/scaling_bench.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kBlock = 4096;

// Calls `visit` with the position of each block of tokens and its w in float64 as [B, H, n, P].
template <typename Visit>
void for_blocks(const Tensor& w, int64_t heads, const Visit& visit) {
  for (int64_t t = 0; t < w.size(1); t += kBlock) {
    const int64_t count = std::min(kBlock, w.size(1) - t);
    visit(t, count,
          w.narrow(1, t, count)
              .to(torch::kDouble)
              .view({w.size(0), count, heads, -1})
              .transpose(1, 2));
  }
}

// Gathers the values to compare, block by block.
class Comparison {
 public:
  Comparison(const Tensor& y, const Tensor& pi) : y_(y), pi_(pi) {
    finite_ = pi.isfinite().all().item<bool>();
    for (int64_t t = 0; t < y.size(1); t += kBlock) {
      finite_ =
          finite_ && y.narrow(1, t, std::min(kBlock, y.size(1) - t)).isfinite().all().item<bool>();
    }
  }

  void see(int64_t first, int64_t count, const Tensor& y, const Tensor& pi) {
    const auto found_pi = pi_.narrow(2, first, count).to(torch::kDouble);
    const auto found_y = y_.narrow(1, first, count).to(torch::kDouble);
    pi_error_ = std::max(pi_error_, (found_pi - pi).abs().max().item<double>());
    y_error_ = std::max(y_error_, (found_y - y).abs().max().item<double>());
    largest_y_ = std::max(largest_y_, y.abs().max().item<double>());
    entropy_ -= torch::xlogy(found_pi, found_pi).sum().item<double>();
    const auto mass = found_pi.sum(at::IntArrayRef({0, 2}));
    mass_ = mass_.defined() ? mass_ + mass : mass;
  }

  MembershipCheck result(const Tensor& temp) const {
    MembershipCheck check;
    check.temp = temp.max().to(torch::kDouble).item<double>();
    const double tokens = double(y_.size(0) * y_.size(1)), heads = double(pi_.size(1));
    check.tokens = y_.size(1);
    check.entropy =
        heads > 1 ? entropy_ / tokens / std::log(heads) : std::numeric_limits<double>::quiet_NaN();
    const auto share = mass_ * (heads / tokens);
    check.least_share = share.min().item<double>();
    check.largest_share = share.max().item<double>();
    check.pi_error = pi_error_;
    check.y_error = y_error_ / std::max(largest_y_, std::numeric_limits<double>::min());
    check.finite = finite_ && std::isfinite(pi_error_) && std::isfinite(y_error_) &&
                   mass_.isfinite().all().item<bool>();
    return check;
  }

 private:
  Tensor y_, pi_, mass_;
  bool finite_ = false;
  double pi_error_ = 0, y_error_ = 0, largest_y_ = 0, entropy_ = 0;
};

Tensor merged(const Tensor& heads) {
  return heads.transpose(1, 2).flatten(2);
}

}  // namespace

MembershipCheck check_membership(const Tensor& w, const Tensor& temp) {
  const torch::NoGradGuard no_grad;
  const int64_t heads = temp.size(0);
  const auto [y, pi] = tssa(w, temp);
  Comparison comparison(y, pi);
  const auto factor = temp.to(torch::kDouble).view({1, heads, 1});
  Tensor energy, moment, mass;
  const auto add = [](Tensor& sum, const Tensor& part) { sum = sum.defined() ? sum + part : part; };
  for_blocks(w, heads, [&](int64_t, int64_t, const Tensor& block) {
    add(energy, block.square().sum(2, /*keepdim=*/true));
  });
  const auto membership = [&](const Tensor& block) {
    return ((block.square() / energy.clamp_min(1e-24)).sum(-1) * factor).softmax(1);
  };
  for_blocks(w, heads, [&](int64_t, int64_t, const Tensor& block) {
    const auto part_pi = membership(block);
    add(mass, part_pi.sum(2, true).unsqueeze(-1));
    add(moment, torch::matmul(part_pi.unsqueeze(2), block.square()));
  });
  const auto factors = -1 / (1 + moment / (mass + 1e-8));  // [B, H, 1, P]
  for_blocks(w, heads, [&](int64_t first, int64_t count, const Tensor& block) {
    const auto part_pi = membership(block);
    comparison.see(first, count, merged(block * part_pi.unsqueeze(-1) * factors), part_pi);
  });
  return comparison.result(temp);
}

double temp_for_length(int64_t tokens, int64_t head_width) {
  return double(tokens) / std::sqrt(2.0 * double(head_width));
}

MembershipCheck check_causal_membership(const Tensor& w, const Tensor& temp) {
  const torch::NoGradGuard no_grad;
  const int64_t heads = temp.size(0);
  const auto no_bias = [&](int64_t tokens, torch::ScalarType dtype) {
    return torch::zeros({heads, tokens, 1}, dtype);
  };
  const auto [y, pi, end] = tssa_causal(w, temp, no_bias(w.size(1), torch::kFloat));
  Comparison comparison(y, pi);
  std::optional<Tensor> state;
  const auto wide_temp = temp.to(torch::kDouble);
  for_blocks(w, heads, [&](int64_t first, int64_t count, const Tensor& block) {
    const auto [block_y, block_pi, after] =
        tssa_causal_plain(merged(block), wide_temp, no_bias(count, torch::kDouble), state, first);
    comparison.see(first, count, block_y, block_pi);
    state = after;
  });
  return comparison.result(temp);
}

}  // namespace tost
