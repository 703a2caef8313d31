#include "tost/ops/tssa_causal_plain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

// The biases of `tokens` positions from `position` on, [H, T, 1], 0 beyond the last there is.
at::Tensor bias_of_tokens(const at::Tensor& denom_bias, int64_t position, int64_t tokens) {
  const int64_t length = denom_bias.size(1);
  const int64_t begin = std::min(position, length);
  const int64_t count = std::min(tokens, length - begin);
  return at::constant_pad_nd(denom_bias.narrow(1, begin, count), {0, 0, 0, tokens - count});
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, int64_t position) {
  return tssa_causal_plain_part(w, temp, denom_bias, state, position, nullptr);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain_part(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, int64_t position, const TokenSums* sums) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  const auto dtype = tssa_accumulation_dtype(w.scalar_type());
  const int64_t batch = w.size(0), tokens = w.size(1), channels = w.size(2), heads = temp.size(0);
  const auto before =
      state.has_value() ? state->detach()
                        : at::zeros({batch, 2 * channels + heads}, w.options().dtype(at::kDouble));
  const auto energy_before = before.narrow(1, 0, channels);
  const auto moment_before = before.narrow(1, channels, channels);
  const auto pi_before = before.narrow(1, 2 * channels, heads);
  const auto per_channel = [&](const at::Tensor& sums) {  // [B, H, 1, P]
    return sums.reshape({batch, heads, 1, channels / heads}).to(dtype);
  };

  const auto x = w.to(dtype).view({batch, tokens, heads, channels / heads}).transpose(1, 2);
  const auto q = x.square();
  auto energy = at::cumsum(q, 2) + per_channel(energy_before);
  if (sums != nullptr) energy = energy + sums->before(q.sum(2, /*keepdim=*/true));
  energy = energy.clamp_min(1e-12);
  const auto bias = bias_of_tokens(denom_bias.to(dtype), position, tokens);
  const auto logits = (q / energy + bias).sum(-1);          // the bias acts P times
  const auto pi = at::softmax(logits * temp.to(dtype), 1);  // [B, H, T], over heads
  const auto weighted = pi.unsqueeze(-1) * q;
  auto pi_sum = at::cumsum(pi, 2) + pi_before.unsqueeze(-1).to(dtype);
  auto moment_sum = at::cumsum(weighted, 2) + per_channel(moment_before);
  if (sums != nullptr) {
    const auto own = at::cat({weighted.sum(2), pi.sum(2).unsqueeze(-1)}, -1);
    const auto earlier = sums->before(own).unsqueeze(2);  // [B, H, 1, P + 1]
    moment_sum = moment_sum + earlier.narrow(-1, 0, x.size(3));
    pi_sum = pi_sum + earlier.select(-1, x.size(3));
  }
  const auto moment = moment_sum / (pi_sum + 1e-8).unsqueeze(-1);
  const auto y = -(x * pi.unsqueeze(-1)) / (1 + moment);

  const auto total = [&](const at::Tensor& terms, int64_t count) {  // over tokens
    return terms.detach().sum(at::IntArrayRef{2}, false, at::kDouble).reshape({batch, count});
  };
  const auto after =
      before + at::cat({total(q, channels), total(weighted, channels), total(pi, heads)}, 1);
  return {y.transpose(1, 2).reshape(w.sizes()).to(w.scalar_type()), pi, after};
}

}  // namespace tost
