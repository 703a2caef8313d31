// Sums over the tokens of a sequence whose tokens lie in several places, each place holding a run
// of them: what the operators' definitions need of the other places. Free of how these are reached.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace tost {

// The operators' phases: own sums, sums over all places (or those before), and the rest, which
// needs nothing of other tokens. What is passed is of constant size, whatever the number of tokens.
// Both functions are differentiable.
struct TokenSums {
  int64_t place = 0;  // this one
  // The sum over the places.
  std::function<at::Tensor(const at::Tensor&)> total;
  // [places, ...]: that of every place.
  std::function<at::Tensor(const at::Tensor&)> gather;

  // The sum over the places before this one.
  at::Tensor before(const at::Tensor& own) const {
    return gather(own).narrow(0, 0, place).sum(at::IntArrayRef{0});
  }
};

}  // namespace tost
