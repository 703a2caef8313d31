#include "tost/nn/affine_chain.h"

namespace tost {

using torch::Tensor;

Tensor state_before(const TokenSums& sums, const Tensor& a, const Tensor& b) {
  const Tensor maps = sums.gather(torch::cat({a, b}, -1));  // [places, ..., P, P + Q]
  const int64_t rows = a.size(-1), columns = b.size(-1);
  // Zeros that depend on `maps`, so that every process takes part in its gradient.
  Tensor state = maps.narrow(0, 0, 0).sum(0).narrow(-1, rows, columns);
  for (int64_t place = 0; place < sums.place; ++place) {
    const Tensor map = maps.select(0, place);
    state = torch::matmul(map.narrow(-1, 0, rows), state) + map.narrow(-1, rows, columns);
  }
  return state;
}

Tensor decayed_state_before(const TokenSums& sums, const Tensor& kept, const Tensor& own) {
  const Tensor all = sums.gather(own);
  Tensor state = all.narrow(0, 0, 0).sum(0);
  for (int64_t place = 0; place < sums.place; ++place) state = state * kept + all.select(0, place);
  return state;
}

}  // namespace tost
