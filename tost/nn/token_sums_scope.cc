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

}  // namespace tost
