#include "tost/ops/arrays.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/engine/threads.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/torch_tensors.h"

namespace tost {
namespace {

// The deleter of an array whose memory belongs to a tensor.
struct TensorHolder {
  at::Tensor tensor;

  void operator()(void*) { tensor.reset(); }
};

// Gives the engines torch's number of threads.
[[maybe_unused]] const bool kCounted = (count_engine_threads_by(torch_threads), true);

}  // namespace

Array array_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto type = std::ranges::find(kScalarTypes, tensor.scalar_type());
  if (type == kScalarTypes.end()) {
    fail_usage("Engines take tensors of the usual types, not one of ", tensor.scalar_type(), ".");
  }
  const at::Tensor plain = tensor.detach();
  // Points an empty tensor's array to one byte, so that the array is defined.
  static char nothing = 0;
  void* data = plain.numel() > 0 ? const_cast<void*>(plain.const_data_ptr()) : &nothing;
  return {plain.sizes().vec(), TorchDtype(type - kScalarTypes.begin()),
          std::shared_ptr<void>(data, TensorHolder{plain}), plain.strides().vec(),
          int64_t(plain.storage().nbytes())};
}

at::Tensor tensor_of(const Array& array) {
  if (!array.defined()) return {};
  if (const auto* holder = std::get_deleter<TensorHolder>(array.owner())) return holder->tensor;
  const auto options = at::TensorOptions().dtype(kScalarTypes[size_t(array.dtype())]);
  auto* data = const_cast<char*>(array.data<char>());
  const auto keep = [owner = array.owner()](void*) {};
  if (array.strides().empty()) return at::from_blob(data, array.shape(), keep, options);
  return at::from_blob(data, array.shape(), array.strides(), keep, options);
}

Arrays arrays_of(Tensors tensors) {
  Arrays arrays;
  for (auto& [name, tensor] : tensors) {
    arrays[name] = array_of(tensor);
    tensor.reset();
  }
  return arrays;
}

Tensors take_tensors(Arrays& arrays) {
  Tensors tensors;
  for (auto& [name, array] : arrays) tensors[name] = tensor_of(array);
  arrays.clear();
  return tensors;
}

}  // namespace tost
