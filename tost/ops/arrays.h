// Converts between torch's tensors and the arrays of the engines, without copying.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "tost/engine/array.h"

namespace tost {

// An array with the tensor's values and strides; an undefined tensor gives an undefined array.
// Throws a usage Error for types that safetensors files do not hold. Only tensor_of() can use an
// array on a GPU.
Array array_of(const at::Tensor& tensor);

// The tensor from which the array was made; for other arrays a tensor over the array's memory.
at::Tensor tensor_of(const Array& array);

// Converts all arrays of a map, and removes them.
using Tensors = std::map<std::string, at::Tensor>;
Arrays arrays_of(Tensors tensors);
Tensors take_tensors(Arrays& arrays);

}  // namespace tost
