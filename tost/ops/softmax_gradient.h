// Cross entropy of logits and its gradient in their place.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tost {

// The sum of the losses of logits [n, V] in nats over the targets [n] int64 that are not -1, the
// others being below V; the logits become its gradient times `scale` (a float64 scalar on their
// device): (softmax - onehot) scale, zeros where the target is -1. Without a scale they are left
// undefined. Arithmetic is float32 for float32 and 16-bit logits. Under autograd and autocast: not
// for callers who have not left both.
at::Tensor softmax_gradient(const at::Tensor& logits, const at::Tensor& targets,
                            const std::optional<at::Tensor>& scale);

// The definition, by torch's operators.
at::Tensor softmax_gradient_plain(const at::Tensor& logits, const at::Tensor& targets,
                                  const std::optional<at::Tensor>& scale);

}  // namespace tost
