// The backends of c10d by which a Group sends tensors. For its sources and their tests alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tost {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

struct BackendPlace {
  c10::intrusive_ptr<c10d::Store> store;
  int64_t rank = 0, world = 1;
  double timeout = 0;        // seconds
  bool one_machine = false;  // as in GroupPlace
};

inline std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(int64_t(seconds * 1000));
}

BackendPtr open_gloo(const BackendPlace& place);

// Opens the backend of tensors on GPUs: NCCL, or null in a program without it. A test may put
// another one here.
BackendPtr (*&gpu_backend())(const BackendPlace&);

// Names that torch 2.15 changed.
WorkPtr reduce_scatter(c10d::Backend& backend, at::Tensor& part, at::Tensor& x);
WorkPtr all_gather(c10d::Backend& backend, at::Tensor& x, at::Tensor& part);

}  // namespace tost
