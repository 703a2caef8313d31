// TSSA with its additions in plain ATen: the definition that the kernels are tested against.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_means.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

// What tokens are compared with, of split [B, H, N, P].
struct Statistics {
  at::Tensor norm;   // [B, H, 1, P]
  at::Tensor count;  // [B, 1, 1]: tokens
};

Statistics statistics_of(const at::Tensor& split, const at::Tensor& own, const TokenSums* sums) {
  if (sums == nullptr) return {split.norm(2, at::IntArrayRef{-2}, /*keepdim=*/true), own};
  const auto energy = split.pow(2).sum(-2, /*keepdim=*/true);
  const auto all = sums->total(at::cat({energy.flatten(1), own.flatten(1)}, 1));
  // The square root has no slope at 0, where the clamp above it lets none through.
  const auto norm = all.narrow(1, 0, all.size(1) - 1).reshape(energy.sizes()).clamp_min(1e-24);
  return {norm.sqrt(), all.narrow(1, all.size(1) - 1, 1).unsqueeze(2)};
}

// The means of split^2 and, where `first`, of split, weighted by pi [B, H, N]: [B, H, 1, P] each.
std::pair<at::Tensor, at::Tensor> weighted_means(const at::Tensor& split, const at::Tensor& pi,
                                                 bool first, const TokenSums* sums) {
  const auto pi_sum = pi.sum(-1, /*keepdim=*/true);
  const auto weights = (sums == nullptr ? pi / (pi_sum + 1e-8) : pi).unsqueeze(-2);
  const auto second = at::matmul(weights, split.pow(2));
  const auto mean = first ? at::matmul(weights, split) : at::Tensor();
  if (sums == nullptr) return {second, mean};
  std::vector<at::Tensor> own{pi_sum.unsqueeze(-1), second};
  if (first) own.push_back(mean);
  const auto all = sums->total(at::cat(own, -1));
  const auto part = [&](int64_t i) {
    const int64_t width = split.size(-1);
    return all.narrow(-1, 1 + i * width, width) / (all.narrow(-1, 0, 1) + 1e-8);
  };
  return {part(0), first ? part(1) : at::Tensor()};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> tssa_means_plain(const at::Tensor& w, const at::Tensor& temp,
                                                    const std::optional<at::Tensor>& lengths,
                                                    const TssaAdditions& additions,
                                                    const TokenSums* sums) {
  check_tssa_inputs(w, temp, lengths);
  const auto dtype = tssa_accumulation_dtype(w.scalar_type());
  const int64_t batch = w.size(0), tokens = w.size(1), heads = temp.size(0);
  const int64_t width = w.size(2) / heads;
  auto split = w.to(dtype).view({batch, tokens, heads, width}).transpose(1, 2);  // [B, H, N, P]
  at::Tensor padding;                                                            // [B, 1, N]
  if (given(lengths)) {
    padding = own_tokens(*lengths, tokens).logical_not().unsqueeze(1);
    split = split.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto own = given(lengths) ? lengths->to(dtype) : at::full({batch}, tokens, split.options());
  const auto [norm, count] = statistics_of(split, own.view({-1, 1, 1}), sums);
  auto logits = (split / norm.clamp_min(1e-12)).pow(2).sum(-1) * temp.to(dtype);  // [B, H, N]
  if (additions.length_free) logits = logits * (count / double(width));
  auto pi = at::softmax(logits, 1);  // over heads
  if (padding.defined()) pi = pi.masked_fill(padding, 0);
  const auto [second, mean] = weighted_means(split, pi, additions.means, sums);
  const auto share = pi.unsqueeze(-1);
  auto y = -(split * share) / (1 + second);
  if (additions.means) y = y + double(heads) * share * mean;
  return {y.transpose(1, 2).reshape(w.sizes()).to(w.scalar_type()), pi};
}

}  // namespace tost
