#include "tost/ops/softmax_gradient.h"

#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include "tost/ops/inner_operator.h"

namespace tost {

using at::Tensor;

Tensor softmax_gradient(const Tensor& logits, const Tensor& targets,
                        const std::optional<Tensor>& scale) {
  static const auto op = inner_operator<decltype(softmax_gradient)>("tost::_softmax_gradient");
  return op.call(logits, targets, scale);
}

Tensor softmax_gradient_plain(const Tensor& logits, const Tensor& targets,
                              const std::optional<Tensor>& scale) {
  const Tensor index = targets.clamp_min(0).unsqueeze(1);
  const bool wide = logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kDouble;
  Tensor x = wide ? logits : logits.to(at::kFloat);
  const Tensor kept = targets.ge(0).to(x.scalar_type()).unsqueeze(1);
  const Tensor picked = x.gather(1, index);
  const Tensor largest = x.amax(1, /*keepdim=*/true);
  x.sub_(largest).exp_();
  const Tensor sum = x.sum(1, /*keepdim=*/true);
  const Tensor loss = ((sum.log() + largest - picked) * kept).sum();
  if (!scale.has_value()) return loss;
  x.mul_(kept * *scale / sum).scatter_add_(1, index, kept * scale->neg());
  if (!wide) logits.copy_(x);
  return loss;
}

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("_softmax_gradient", &softmax_gradient_plain);
}

}  // namespace tost
