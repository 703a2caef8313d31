// Running group means on a GPU: what kernels/group_means.h says of the operator, its arguments and
// layout holds here; all pointers are the device's. float16 too. Only for shapes that
// supports_causal() takes. Sums are formed in an order that follows from the shape alone, so
// results repeat bit for bit.
#pragma once

#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/kernels/group_means.h"

namespace tost::kernels::cuda {

int64_t means_workspace(const MeansForwardArgs& args);
int64_t means_workspace(const MeansBackwardArgs& args);

// As tssa_forward() of tssa_cuda.h. A call of one token that keeps no carry is one kernel.
int means_forward(const MeansForwardArgs& args, void* workspace, Stream stream);
int means_backward(const MeansBackwardArgs& args, void* workspace, Stream stream);

}  // namespace tost::kernels::cuda
