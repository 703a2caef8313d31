// Between torch's tensors and the arrays of the engines, without copying.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "tost/engine/array.h"

namespace tost {

// The tensor's numbers with its strides, without gradient; undefined stays so. Throws a usage Error
// for types that files of safetensors do not hold. Of a tensor on a GPU only tensor_of() makes use.
Array array_of(const at::Tensor& tensor);

// The tensor that the array was made of, where it was, else one over the array's memory.
at::Tensor tensor_of(const Array& array);
// The same, leaving the array undefined: the tensor has no other owner where the array had none.
at::Tensor take_tensor(Array& array);

// The same of all in a map.
using Tensors = std::map<std::string, at::Tensor>;
Arrays arrays_of(Tensors tensors);
Tensors take_tensors(Arrays& arrays);

}  // namespace tost
