// Installs the block cache as the CPU allocator of torch.
#pragma once

#include <ATen/core/Tensor.h>

#include "tost/kernels/block_cache.h"

namespace tost {

// Installs the block cache as the CPU allocator of torch and returns true; existing tensors do not
// change. Changes nothing and returns false unless caching_allocator_enabled(); throws its Errors.
bool install_caching_allocator();

// An uninitialised contiguous CPU tensor from the block cache, or from torch's allocator if the
// cache is off.
at::Tensor empty_cached(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace tost
