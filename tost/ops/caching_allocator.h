// Installs the block cache as the CPU allocator of torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// Installs the block cache as the CPU allocator of torch and returns true; existing tensors do not
// change. With TOST_ALLOCATOR=system, changes nothing and returns false. Throws a usage Error for
// any other value than "caching" or "system".
bool install_caching_allocator();

// Whether TOST_ALLOCATOR enables the block cache. Throws as install_caching_allocator().
bool caching_allocator_enabled();

// An uninitialised contiguous CPU tensor from the block cache, or from torch's allocator if the
// cache is off.
at::Tensor empty_cached(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace tost
