// Elements of torch's types as numbers.
#pragma once

#include "tost/io/torch_dtype.h"

namespace tost {

// Whether read_element() knows the type: every one but the complex, quantised, 4-bit and raw ones.
bool is_real(TorchDtype dtype);

// The element at `at`, which need not be aligned. 64-bit integers beyond 2^53 are rounded.
double read_element(const char* at, TorchDtype dtype);

}  // namespace tost
