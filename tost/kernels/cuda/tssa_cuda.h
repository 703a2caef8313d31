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

// Of the device the pointers belong to; asked once by the caller.
struct DeviceFacts {
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  // most shared memory of a block, opted into
  int64_t cache_bytes = 0;          // L2 cache that groups are to fit; 0: no groups
};

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

int64_t forward_workspace(const TssaForwardArgs& args, const DeviceFacts& device);
int64_t backward_workspace(const TssaBackwardArgs& args, const DeviceFacts& device);
int64_t forward_workspace(const CausalForwardArgs& args);
int64_t backward_workspace(const CausalBackwardArgs& args);

// Whether the forward is one kernel that reads w once: a block a sample, which keeps it in shared
// memory. It takes samples that fit there, unless they are few and large: these are spread over the
// multiprocessors.
bool reads_once(const TssaForwardArgs& args, const DeviceFacts& device);

// Samples that go through all passes together, before the next ones begin: all, or where the
// second- level cache does not hold what they read, as many as it does, so that the later passes
// read from there.
int64_t samples_at_once(const TssaForwardArgs& args, const DeviceFacts& device);
int64_t samples_at_once(const TssaBackwardArgs& args, const DeviceFacts& device);

// Queue their work on `stream` and return. They allocate nothing and wait for nothing; `workspace`
// is 256-byte aligned. Only for what supports() takes, or supports_causal(). Return a cudaError_t,
// 0 for success.
int tssa_forward(const TssaForwardArgs& args, void* workspace, const DeviceFacts& device,
                 Stream stream);
int tssa_backward(const TssaBackwardArgs& args, void* workspace, const DeviceFacts& device,
                  Stream stream);

// `carry` is laid out [2, B, chunks, C] here: sums of q, then of Pi q. A call of one token that
// keeps no carry is one kernel where a block's shared memory holds C + 2 H floats.
int causal_forward(const CausalForwardArgs& args, void* workspace, const DeviceFacts& device,
                   Stream stream);
int causal_backward(const CausalBackwardArgs& args, void* workspace, Stream stream);

}  // namespace tost::kernels::cuda
