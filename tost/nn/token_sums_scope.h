// Sums over tokens: marks of forward passes that hold a part of every sequence, and running sums
// that forget, the statistics of causal mixers that decay.
#pragma once

#include "tost/ops/token_sums.h"
#include "tost/torch.h"

namespace tost {

// While in scope, forward and backward passes of this thread without a state get a part of every
// sequence's tokens. Other processes have the other parts. Null: they hold all.
class TokenSumsScope {
 public:
  explicit TokenSumsScope(const TokenSums* sums);  // outlives it
  ~TokenSumsScope();
  TokenSumsScope(const TokenSumsScope&) = delete;
  TokenSumsScope& operator=(const TokenSumsScope&) = delete;

  static const TokenSums* current();

 private:
  const TokenSums* before_;
};

// The position of the first local token, if every process has `tokens` tokens; 0 if there is no
// scope.
int64_t first_position(int64_t tokens);

// The last `count` tokens [B, count, C] of x [B, N, C] in the previous process; zeros in the first
// process. Differentiable.
torch::Tensor tokens_before(const TokenSums& sums, const torch::Tensor& x, int64_t count);

// The state [..., P, Q] before the first token of this process, if the tokens of a process change a
// state S to a S + b, with a [..., P, P] and b [..., P, Q]. The state before the first process is
// zero. The size of messages does not depend on the number of tokens. The result is differentiable,
// and every process must use it.
torch::Tensor state_before(const TokenSums& sums, const torch::Tensor& a, const torch::Tensor& b);

// The state before this process if the tokens of a process change S to decay S + local, element by
// element.
torch::Tensor decayed_state_before(const TokenSums& sums, const torch::Tensor& decay,
                                   const torch::Tensor& local);

// Computes s_t = exp(log_decay_h) s_{t-1} + x_t for every sequence, head and feature, by products
// with triangular matrices over chunks of 64 tokens. Differentiable in x [B, T, H, P] and log_decay
// [H], which is at most 0, or undefined for plain sums. `carry` [B, H, P] float64 is s before the
// first token (undefined or null: zeros), and gets s after the last one. Sums over chunks are
// float64, so a sum over millions of tokens is as exact as one over 64. Under a TokenSumsScope and
// without `carry`, x holds a part of every sequence; all parts have the same length.
torch::Tensor running_sums(const torch::Tensor& x, const torch::Tensor& log_decay,
                           torch::Tensor* carry = nullptr);

}  // namespace tost
