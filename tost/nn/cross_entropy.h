// The loss of a linear head over a vocabulary, without a copy of its logits.
#pragma once

#include "tost/torch.h"

namespace tost {

// Returns the mean cross-entropy in nats of the logits hidden weightᵀ over the targets that are not
// -1, a float32 scalar (float64 for float64 inputs); NaN without any such target, as in torch.
// hidden [N, C], weight [V, C], targets [N] int64, each -1 or below V.
//
// Computes gradients of hidden and weight along with the loss, in place of the logits, of which at
// most `logit_bytes` exist at a time (at least one row; 0: 256 MiB on the CPU, 1 GiB on a GPU,
// which smaller products would not keep busy). Backward only returns them, so it can run once, and
// cannot be differentiated (a usage Error). Under autocast to bfloat16 the matrix products are
// bfloat16 and the softmax is float32, as in torch. Deterministic for a given number of threads.
// Throws a data Error for shapes that do not fit and, on the CPU, for targets outside the
// vocabulary.
torch::Tensor head_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                 const torch::Tensor& targets, int64_t logit_bytes = 0);

// Throws a data Error for targets on the CPU that are neither -1 nor below `vocab`.
void check_targets(const torch::Tensor& targets, int64_t vocab);

}  // namespace tost
