// Calling an operator of torch.ops.tost from C++.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace tost {

// The operator of that name, "tost::name", through the dispatcher. Looking it up takes time: keep
// it.
template <class Signature>
c10::TypedOperatorHandle<Signature> inner_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// As operators take a tensor that may be missing.
inline std::optional<at::Tensor> if_defined(const at::Tensor& x) {
  return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
}

}  // namespace tost
