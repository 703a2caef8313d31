// The backends of c10d by which a Group sends tensors; only this folder includes this header.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
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

// Opens NCCL for tensors on GPUs; null in a program without NCCL. A test may replace this function.
BackendPtr (*&gpu_backend())(const BackendPlace&);

// Sets `key` of a c10d store to `value` unless the key has a value, and returns the key's value;
// empty if no store answers.
std::string agreed_in_store(const std::string& address, int64_t port, const std::string& key,
                            const std::string& value);

// Waits for `work` for at most `turn`; returns false if `work` is still running. Throws its error.
bool ends_within(c10d::Work& work, std::chrono::milliseconds turn);

// Wraps calls of c10d whose names torch 2.15 changed.
WorkPtr reduce_scatter(c10d::Backend& backend, at::Tensor& part, at::Tensor& x);
WorkPtr all_gather(c10d::Backend& backend, at::Tensor& x, at::Tensor& part);

}  // namespace tost
