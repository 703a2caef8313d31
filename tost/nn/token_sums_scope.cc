#include "tost/nn/token_sums_scope.h"

#include <algorithm>

namespace tost {

using torch::Tensor;

namespace {

thread_local const TokenSums* token_sums_here = nullptr;

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
  // Of no place, a sum that depends on `ends`: every process takes part in its gradient.
  return ends.narrow(0, std::max<int64_t>(0, sums.place - 1), std::min<int64_t>(1, sums.place))
      .sum(0);
}

}  // namespace tost
