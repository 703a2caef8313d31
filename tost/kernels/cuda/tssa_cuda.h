// TSSA on a GPU: what kernels/tssa.h says of the operator, its arguments, layout and range holds
// here; all pointers are the device's. Sums are formed in an order that follows from the shape and
// the device alone, so results repeat bit for bit.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa.h"

namespace tost::kernels::cuda {

// Of the device the pointers belong to; asked once by the caller.
struct DeviceFacts {
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  // most shared memory of a block, opted into
};

using Stream = void*;  // a cudaStream_t

// Whether the kernels take this shape: at most 1,024 packs of 16 bytes a token, or 1,024 channels
// where the head width or an address does not divide into packs.
bool supports(const TssaForwardArgs& args);
bool supports(const TssaBackwardArgs& args);

int64_t forward_workspace(const TssaForwardArgs& args, const DeviceFacts& device);
int64_t backward_workspace(const TssaBackwardArgs& args, const DeviceFacts& device);

// Queue their work on `stream` and return. They allocate nothing and wait for nothing; `workspace`
// is 256-byte aligned. Only for what supports() takes. Return a cudaError_t, 0 for success.
int tssa_forward(const TssaForwardArgs& args, void* workspace, const DeviceFacts& device,
                 Stream stream);
int tssa_backward(const TssaBackwardArgs& args, void* workspace, const DeviceFacts& device,
                  Stream stream);

}  // namespace tost::kernels::cuda
