#include "tost/nn/causal_conv.h"

#include <cmath>

namespace tost {

CausalConv::CausalConv(int64_t channels, int64_t taps) {
  const double bound = 1 / std::sqrt(double(taps));
  weight = register_parameter("weight", torch::empty({taps, channels}).uniform_(-bound, bound));
}

torch::Tensor CausalConv::forward(const torch::Tensor& x, torch::Tensor* past) const {
  const int64_t taps = weight.size(0), tokens = x.size(1);
  const auto filter = weight.to(x.scalar_type());
  auto before = past != nullptr && past->defined()
                    ? *past
                    : torch::zeros({x.size(0), taps - 1, x.size(2)}, x.options());
  const auto all = torch::cat({before, x}, 1);  // [B, taps - 1 + T, C]
  if (past != nullptr) *past = all.narrow(1, tokens, taps - 1).detach().clone();
  auto y = x * filter[taps - 1];
  for (int64_t i = 0; i + 1 < taps; ++i) {
    y = torch::addcmul(y, all.narrow(1, i, tokens), filter[i]);
  }
  return y;
}

}  // namespace tost
