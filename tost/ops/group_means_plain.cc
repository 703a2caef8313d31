#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "tost/ops/group_means.h"
#include "tost/ops/tssa_plain.h"

namespace tost {

at::Tensor in_reading_order(const at::Tensor& x, int64_t heads, int64_t from_end) {
  if (from_end == 0 || !x.defined()) return x;
  const int64_t end = x.size(2) / heads * from_end, rest = x.size(2) - end;
  return at::cat({x.narrow(2, 0, rest), x.narrow(2, rest, end).flip(1)}, 2);
}

MeansCall in_reading_order(const MeansCall& call) {
  const auto turned = [&](const at::Tensor& x) {
    return in_reading_order(x, call.pi.size(2), call.from_end);
  };
  return {turned(call.base), turned(call.values), turned(call.gate), turned(call.pi),
          call.log_rates};
}

at::Tensor group_means_plain(const MeansCall& call, const at::Tensor& scale, at::Tensor* sums) {
  if (call.from_end > 0) {
    return in_reading_order(group_means_plain(in_reading_order(call), scale, sums), call.pi.size(2),
                            call.from_end);
  }
  const int64_t batch = call.values.size(0), tokens = call.values.size(1);
  const int64_t heads = call.pi.size(2), width = call.values.size(2) / heads;
  const auto type = tssa_accumulation_dtype(call.values.scalar_type());
  const auto values = call.values.to(type).reshape({batch, tokens, heads, width});
  const auto pi = call.pi.to(type).unsqueeze(3);  // [B, T, H, 1]
  const auto decay = call.log_rates.defined() ? call.log_rates.to(type).exp().view({1, heads, 1})
                                              : at::ones({1, heads, 1}, values.options());
  auto sum = at::zeros({batch, heads, width}, values.options());
  auto mass = at::zeros({batch, heads, 1}, values.options());
  if (sums != nullptr && sums->defined()) {
    sum = sums->narrow(2, 0, width).to(type);
    mass = sums->narrow(2, width, 1).to(type);
  }
  std::vector<at::Tensor> means;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto share = pi.select(1, t);  // [B, H, 1]
    sum = decay * sum + share * values.select(1, t);
    mass = decay * mass + share.square();
    means.push_back((sum * (mass + 1e-6).rsqrt()).reshape({batch, heads * width}));
  }
  if (sums != nullptr) *sums = at::cat({sum, mass}, 2).detach().to(at::kDouble);
  auto y = call.base.to(type);
  if (tokens > 0) y = y + at::stack(means, 1) * scale.to(type);
  if (call.gate.defined()) y = y * at::silu(call.gate.to(type));
  return y.to(call.values.scalar_type());
}

}  // namespace tost
