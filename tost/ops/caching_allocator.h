// Makes the block cache torch's CPU allocator.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// Makes the block cache the CPU allocator of torch in this process and returns true; tensors made
// before keep their memory. With TOST_ALLOCATOR=system it changes nothing and returns false. Throws
// a usage Error for any other value than "caching" or "system".
bool install_caching_allocator();

// Whether TOST_ALLOCATOR leaves the cache on. Throws as install_caching_allocator().
bool caching_allocator_enabled();

// An uninitialised contiguous CPU tensor from the block cache, or from torch's allocator if that is
// off.
at::Tensor empty_cached(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace tost
