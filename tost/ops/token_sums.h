// Sums over the tokens of a sequence that is split among several places (processes), each with a
// contiguous part. They are all that an operator needs of the other places. Two functions hide the
// communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace tost {

// An operator runs in phases: local sums, sums over all places (or those before), and the rest,
// which needs no other tokens. The messages have a constant size for any number of tokens. Both
// functions are differentiable.
struct TokenSums {
  int64_t place = 0;  // this one
  // The sum over the places.
  std::function<at::Tensor(const at::Tensor&)> total;
  // [places, ...]: that of every place.
  std::function<at::Tensor(const at::Tensor&)> gather;

  // The sum over the places before this one.
  at::Tensor before(const at::Tensor& local) const {
    return gather(local).narrow(0, 0, place).sum(at::IntArrayRef{0});
  }
};

}  // namespace tost
