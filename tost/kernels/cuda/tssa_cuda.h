// TSSA on a GPU, bidirectional and causal: what kernels/tssa.h and kernels/tssa_causal.h say of the
// operators, their arguments, layout and range holds here; all pointers are the device's. Sums are
// formed in an order that follows from the shape and the device alone, so results repeat bit for
// bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tost/kernels/tssa.h"
#include "tost/kernels/tssa_causal.h"

namespace tost::kernels::cuda {

using Stream = void*;  // a cudaStream_t

// Whether the kernels take this shape: at most 512 packs of 16 bytes a token, or 512 channels where
// the head width or an address does not divide into packs; fewer than 2^31 heads in all samples.
bool supports(const TssaForwardArgs& args);
bool supports(const TssaBackwardArgs& args);
// At most 256 channels a head, fewer than 2^31 heads in all chunks of all samples.
inline bool supports_causal(const TssaShape& shape) {
  const int64_t chunks = std::max<int64_t>(1, shape.batch * causal_chunks(shape.tokens));
  return shape.width <= 256 && chunks * shape.heads <= INT32_MAX;
}

// `multiprocessors` are those of the device the pointers belong to.
int64_t forward_workspace(const TssaForwardArgs& args, int multiprocessors);
int64_t backward_workspace(const TssaBackwardArgs& args, int multiprocessors);
int64_t forward_workspace(const CausalForwardArgs& args);
int64_t backward_workspace(const CausalBackwardArgs& args);

// Queue their work on `stream` and return. They allocate nothing and wait for nothing; `workspace`
// is 256-byte aligned. Only for what supports() takes, or supports_causal(). Return a cudaError_t,
// 0 for success.
int tssa_forward(const TssaForwardArgs& args, void* workspace, int multiprocessors, Stream stream);
int tssa_backward(const TssaBackwardArgs& args, void* workspace, int multiprocessors,
                  Stream stream);

// `carry` is laid out [2, B, chunks, C] here: sums of q, then of Pi q. A call of one token that
// keeps no carry is one kernel where `shared_bytes`, the most shared memory of a block, hold
// C + 2 H floats.
int causal_forward(const CausalForwardArgs& args, void* workspace, int64_t shared_bytes,
                   Stream stream);
int causal_backward(const CausalBackwardArgs& args, void* workspace, Stream stream);

}  // namespace tost::kernels::cuda
