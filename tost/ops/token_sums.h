// Sums over the tokens of a sequence that is split among processes, each with a contiguous
// part. Operators need only sums from other processes. Two functions do the communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace tost {

// An operator first computes local sums, then adds up the sums of all processes (or of earlier
// processes), and then needs no other tokens. Messages do not grow with the number of tokens. Both
// functions are differentiable.
struct TokenSums {
  int64_t place = 0;  // this one
  // Sums a tensor over all processes.
  std::function<at::Tensor(const at::Tensor&)> total;
  // Stacks the tensors of all processes as [processes, ...].
  std::function<at::Tensor(const at::Tensor&)> gather;

  // Sums a tensor over the processes before this one.
  at::Tensor before(const at::Tensor& local) const {
    return gather(local).narrow(0, 0, place).sum(at::IntArrayRef{0});
  }
};

}  // namespace tost
