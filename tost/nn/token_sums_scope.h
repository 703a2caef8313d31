// Marks forward passes that hold a part of every sequence's tokens.
#pragma once

#include "tost/ops/token_sums.h"
#include "tost/torch.h"

namespace tost {

// While in scope, models of this thread hold only a part of every sequence's tokens, in forward
// passes without a state and in their backward. Other places hold the other tokens. Null: they hold
// all.
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

// The position of the first local token, if every place holds `tokens`; 0 without a scope.
int64_t first_position(int64_t tokens);

// The last `count` tokens of the place before this one [B, count, C], from x [B, N, C], which holds
// as many or more; zeros in the first place. Differentiable.
torch::Tensor tokens_before(const TokenSums& sums, const torch::Tensor& x, int64_t count);

// The state before the first token of this place, zeros before that of the first place, where the
// tokens of a place make A S + B of a state S. a [..., P, P], b [..., P, Q] → [..., P, Q]. The
// messages do not grow with the tokens. Differentiable; every place must use the result.
torch::Tensor state_before(const TokenSums& sums, const torch::Tensor& a, const torch::Tensor& b);

// The same where the tokens of a place make decay S + local of S, element by element.
torch::Tensor decayed_state_before(const TokenSums& sums, const torch::Tensor& decay,
                                   const torch::Tensor& local);

}  // namespace tost
