#include "tost/nn/token_sums_scope.h"

#include <algorithm>

#include "tost/nn/precision.h"

namespace tost {

using torch::Tensor;

namespace {

thread_local const TokenSums* token_sums_here = nullptr;

constexpr int64_t kChunk = 64;

// The matrix [H or 1, n, n] of decay^(i - j) for i >= j, else 0.
Tensor decay_matrix(const Tensor& log_decay, int64_t n, const torch::TensorOptions& options) {
  const auto index = torch::arange(n, options);
  const auto distance = index.unsqueeze(1) - index;  // [n, n]
  const auto seen = distance >= 0;
  if (!log_decay.defined()) return seen.to(options.dtype()).unsqueeze(0);
  return (distance.clamp_min(0) * log_decay.to(options).view({-1, 1, 1})).exp() * seen;
}

// Computes decay^(1 .. n) as [H, n].
Tensor decay_powers(const Tensor& log_decay, int64_t n, const torch::TensorOptions& options) {
  const auto steps = torch::arange(1, n + 1, options);
  if (!log_decay.defined()) return torch::ones({1, n}, options);
  return (steps * log_decay.to(options).unsqueeze(1)).exp();
}

// Adds one token, without chunks and matrices.
Tensor single_step(const Tensor& x, const Tensor& log_decay, Tensor* carry) {
  auto sum = x.squeeze(1).to(torch::kDouble);  // [B, H, P]
  if (carry->defined()) {
    const auto decay = log_decay.defined() ? log_decay.to(torch::kDouble).exp().view({1, -1, 1})
                                           : torch::ones({1, 1, 1}, sum.options());
    sum = sum + decay * *carry;
  }
  *carry = sum.detach();
  return sum.to(x.scalar_type()).unsqueeze(1);
}

Tensor padded_chunks(const Tensor& x, int64_t chunk) {
  const int64_t tokens = x.size(1), chunks = (tokens + chunk - 1) / chunk;
  const int64_t padding = chunks * chunk - tokens;
  const auto padded = padding > 0 ? torch::constant_pad_nd(x, {0, 0, 0, 0, 0, padding}) : x;
  return padded.reshape({x.size(0), chunks, chunk, x.size(2), x.size(3)}).permute({0, 1, 3, 2, 4});
}

Tensor sums_of_part(const Tensor& x, const Tensor& log_decay, Tensor* carry);

// Computes the sums before each chunk [B, chunks, H, 1, P], in float64, from the sums of the chunks
// `ends` [B, chunks, H, P].
Tensor sums_before(const Tensor& ends, const Tensor& log_decay, int64_t chunk,
                   const Tensor& carry) {
  const auto rate = log_decay.defined() ? log_decay.to(torch::kDouble) * double(chunk) : log_decay;
  // Computes running sums of the chunks as of a shorter sequence.
  Tensor running = carry;
  const auto after = sums_of_part(ends, rate, running.defined() ? &running : nullptr);
  const auto first = carry.defined() ? carry : torch::zeros_like(ends.select(1, 0));
  return torch::cat({first.unsqueeze(1), after.narrow(1, 0, after.size(1) - 1)}, 1).unsqueeze(3);
}

Tensor sums_of_places(const Tensor& x, const Tensor& log_decay, const TokenSums& sums) {
  const Tensor local = sums_of_part(x, log_decay, nullptr);
  const int64_t last = x.size(1) - 1;
  const Tensor reach = decay_powers(log_decay, x.size(1), x.options());  // [H, T]
  const Tensor before =
      decayed_state_before(sums, reach.select(1, last).unsqueeze(1), local.select(1, last));
  return local + reach.transpose(0, 1).unsqueeze(2).unsqueeze(0) * before.unsqueeze(1);
}

Tensor sums_of_part(const Tensor& x, const Tensor& log_decay, Tensor* carry) {
  const int64_t tokens = x.size(1), heads = x.size(2), width = x.size(3);
  if (tokens == 0) return x;
  if (tokens == 1 && carry != nullptr) return single_step(x, log_decay, carry);
  // Disables autocast, so that matrix products stay in float32.
  const WithoutAutocast no_autocast;
  const int64_t chunk = std::min(kChunk, tokens);
  const auto wide = x.options().dtype(torch::kDouble);
  const auto parts = padded_chunks(x, chunk);  // [B, chunks, H, chunk, P]
  const int64_t chunks = parts.size(1), inside = tokens - (chunks - 1) * chunk;
  auto sums = torch::matmul(decay_matrix(log_decay, chunk, x.options()), parts);
  const auto ends = sums.select(3, chunk - 1).to(torch::kDouble);
  if (chunks > 1 || (carry != nullptr && carry->defined())) {
    const auto before = sums_before(ends, log_decay, chunk, carry != nullptr ? *carry : Tensor());
    const auto reach = decay_powers(log_decay, chunk, wide).unsqueeze(2);  // [H, chunk, 1]
    sums = sums + (reach * before).to(x.scalar_type());
    if (carry != nullptr) {
      const auto local =
          torch::matmul(decay_matrix(log_decay, chunk, wide).narrow(1, inside - 1, 1),
                        parts.select(1, chunks - 1).to(torch::kDouble));
      const auto tail =
          decay_powers(log_decay, inside, wide).select(1, inside - 1).view({-1, 1, 1});
      *carry = (tail * before.select(1, chunks - 1) + local).squeeze(2).detach();
    }
  } else if (carry != nullptr) {
    *carry = ends.select(1, 0).detach();
  }
  return sums.permute({0, 1, 3, 2, 4})
      .reshape({x.size(0), chunks * chunk, heads, width})
      .narrow(1, 0, tokens);
}

}  // namespace

TokenSumsScope::TokenSumsScope(const TokenSums* sums) : before_(token_sums_here) {
  token_sums_here = sums;
}

TokenSumsScope::~TokenSumsScope() {
  token_sums_here = before_;
}

const TokenSums* TokenSumsScope::current() {
  return token_sums_here;
}

int64_t first_position(int64_t tokens) {
  return token_sums_here == nullptr ? 0 : token_sums_here->place * tokens;
}

Tensor tokens_before(const TokenSums& sums, const Tensor& x, int64_t count) {
  const Tensor ends = sums.gather(x.narrow(1, x.size(1) - count, count));
  // In the first process, returns an empty sum that depends on `ends`, so that every process takes
  // part in the gradient.
  return ends.narrow(0, std::max<int64_t>(0, sums.place - 1), std::min<int64_t>(1, sums.place))
      .sum(0);
}

Tensor state_before(const TokenSums& sums, const Tensor& a, const Tensor& b) {
  const Tensor maps = sums.gather(torch::cat({a, b}, -1));  // [processes, ..., P, P + Q]
  const int64_t rows = a.size(-1), columns = b.size(-1);
  // Starts with zeros that depend on `maps`, so that every process takes part in the gradient.
  Tensor state = maps.narrow(0, 0, 0).sum(0).narrow(-1, rows, columns);
  for (int64_t place = 0; place < sums.place; ++place) {
    const Tensor map = maps.select(0, place);
    state = torch::matmul(map.narrow(-1, 0, rows), state) + map.narrow(-1, rows, columns);
  }
  return state;
}

Tensor decayed_state_before(const TokenSums& sums, const Tensor& decay, const Tensor& local) {
  const Tensor all = sums.gather(local);
  Tensor state = all.narrow(0, 0, 0).sum(0);
  for (int64_t place = 0; place < sums.place; ++place) state = state * decay + all.select(0, place);
  return state;
}

Tensor running_sums(const Tensor& x, const Tensor& log_decay, Tensor* carry) {
  const TokenSums* sums = carry == nullptr ? TokenSumsScope::current() : nullptr;
  return sums != nullptr ? sums_of_places(x, log_decay, *sums) : sums_of_part(x, log_decay, carry);
}

}  // namespace tost
