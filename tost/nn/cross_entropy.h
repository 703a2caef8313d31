// The loss of a linear head over a vocabulary, without a copy of its logits.
#pragma once

#include "tost/torch.h"

namespace tost {

// Returns the mean cross-entropy in nats of the logits hidden weightᵀ over the targets that are not
// -1: a float32 scalar (float64 for float64 inputs), or NaN if there are none, as in torch. The
// arguments are hidden [N, C], weight [V, C] and targets [N] int64, each -1 or below V.
//
// Computes the gradients of hidden and weight together with the loss, so that logits are not
// stored. At most `logit_bytes` of logits, and at least one row, exist at a time; 0 means 256 MiB
// on the CPU and 1 GiB on a GPU. Backward returns the stored gradients, so it can run only once; a
// second derivative is a usage Error. Under autocast to bfloat16 the matrix products are bfloat16
// and the softmax is float32, as in torch. Results repeat bit for bit with the same number of
// threads. Throws a data Error for shapes that do not fit and, on the CPU, for targets outside the
// vocabulary.
torch::Tensor head_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                 const torch::Tensor& targets, int64_t logit_bytes = 0);

// Throws a data Error for targets on the CPU that are neither -1 nor below `vocab`.
void check_targets(const torch::Tensor& targets, int64_t vocab);

}  // namespace tost
