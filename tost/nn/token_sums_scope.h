// Marks forward passes that hold a part of every sequence's tokens.
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

}  // namespace tost
