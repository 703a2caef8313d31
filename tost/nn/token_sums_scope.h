// Where a forward pass holds a part of every sequence's tokens.
#pragma once

#include "tost/ops/token_sums.h"
#include "tost/torch.h"

namespace tost {

// While in scope, models of this thread hold a part of every sequence's tokens, the others being in
// other places, in forward passes without a state and in their backward. Null: they hold all.
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

// The position of the first token here, where every place holds so many; 0 without a scope.
int64_t first_position(int64_t tokens);

// The last `count` tokens of the place before this one [B, count, C], from x [B, N, C], which holds
// as many or more; zeros in the first place. Differentiable.
torch::Tensor tokens_before(const TokenSums& sums, const torch::Tensor& x, int64_t count);

// The state before the first token of this place, zeros before that of the first place, where the
// tokens of a place make A S + B of a state S. a [..., P, P], b [..., P, Q] → [..., P, Q]. What is
// passed does not grow with the tokens. Differentiable; every place is to use the result.
torch::Tensor state_before(const TokenSums& sums, const torch::Tensor& a, const torch::Tensor& b);

// The same where the tokens of a place make kept S + own of it, element by element.
torch::Tensor decayed_state_before(const TokenSums& sums, const torch::Tensor& kept,
                                   const torch::Tensor& own);

}  // namespace tost
