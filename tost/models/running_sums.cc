#include "tost/models/running_sums.h"

#include <algorithm>

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kChunk = 64;

// decay^(i - j) for i - j >= offset, else 0 [H, n, n]; `step` tokens lie between two indices.
Tensor decay_matrix(const Tensor& log_decay, int64_t n, int64_t offset, int64_t step,
                    const torch::TensorOptions& options) {
  const auto index = torch::arange(n, options);
  const auto distance = index.unsqueeze(1) - index - offset;  // [n, n]
  const auto seen = distance >= 0;
  if (!log_decay.defined()) return seen.to(options.dtype()).unsqueeze(0);
  const auto power =
      (distance.clamp_min(0) * double(step)) * log_decay.to(options).view({-1, 1, 1});
  return power.exp() * seen;
}

// decay^(1 .. n) [H, n]
Tensor decay_powers(const Tensor& log_decay, int64_t n, const torch::TensorOptions& options) {
  const auto steps = torch::arange(1, n + 1, options);
  if (!log_decay.defined()) return torch::ones({1, n}, options);
  return (steps * log_decay.to(options).unsqueeze(1)).exp();
}

// One token: no chunk, no matrix.
Tensor single_step(const Tensor& x, const Tensor& log_decay, Tensor* carry) {
  auto sum = x.squeeze(1).to(torch::kDouble);  // [B, H, P]
  if (carry->defined()) {
    const auto decay = log_decay.defined() ? log_decay.to(torch::kDouble).exp().view({1, -1, 1})
                                           : torch::ones({1, 1, 1}, torch::kDouble);
    sum = sum + decay * *carry;
  }
  *carry = sum;
  return sum.to(x.scalar_type()).unsqueeze(1);
}

}  // namespace

Tensor running_sums(const Tensor& x, const Tensor& log_decay, Tensor* carry) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = x.size(2), width = x.size(3);
  if (tokens == 0) return x;
  if (tokens == 1 && carry != nullptr) return single_step(x, log_decay, carry);
  const int64_t chunk = std::min(kChunk, tokens);
  const int64_t chunks = (tokens + chunk - 1) / chunk, padding = chunks * chunk - tokens;
  const auto wide = x.options().dtype(torch::kDouble);
  const auto padded = padding > 0 ? torch::constant_pad_nd(x, {0, 0, 0, 0, 0, padding}) : x;
  const auto parts = padded.reshape({batch, chunks, chunk, heads, width}).permute({0, 1, 3, 2, 4});
  auto sums = torch::matmul(decay_matrix(log_decay, chunk, 0, 1, x.options()), parts);
  const bool carried = carry != nullptr && carry->defined();
  if (chunks > 1 || carried) {
    // Sums before each chunk [B, chunks, H, P]: those of the chunks before it, and what came in.
    const auto ends = sums.select(3, chunk - 1).to(torch::kDouble).permute({0, 2, 1, 3});
    auto before = torch::matmul(decay_matrix(log_decay, chunks, 1, chunk, wide), ends);
    if (carried) {
      const auto step = log_decay.defined() ? log_decay.to(wide) * double(chunk) : log_decay;
      const auto power = torch::cat({torch::ones({step.defined() ? heads : 1, 1}, wide),
                                     decay_powers(step, chunks, wide).slice(1, 0, chunks - 1)},
                                    1);
      before = before + power.unsqueeze(2) * carry->unsqueeze(2);
    }
    const auto incoming = before.permute({0, 2, 1, 3}).unsqueeze(3);  // [B, chunks, H, 1, P]
    sums =
        sums + (decay_powers(log_decay, chunk, wide).unsqueeze(2) * incoming).to(x.scalar_type());
    if (carry != nullptr) {
      const int64_t last = chunk - padding;
      const auto tail = decay_powers(log_decay, last, wide).select(1, last - 1).unsqueeze(1);
      const auto within =
          torch::matmul(decay_matrix(log_decay, chunk, 0, 1, wide).narrow(1, last - 1, 1),
                        parts.select(1, chunks - 1).to(torch::kDouble));
      *carry = tail * before.select(2, chunks - 1) + within.squeeze(2);
    }
  } else if (carry != nullptr) {
    *carry = sums.select(1, 0).select(2, chunk - padding - 1).to(torch::kDouble);
  }
  return sums.permute({0, 1, 3, 2, 4})
      .reshape({batch, chunks * chunk, heads, width})
      .narrow(1, 0, tokens);
}

}  // namespace tost
