// Shared by the tests of the kernels: aligned workspaces, arrays among canaries, two threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

inline constexpr float kCanary = 12345.5f;

struct Workspace {
  explicit Workspace(int64_t bytes) : storage(bytes + 64) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + (64 - address % 64) % 64;
  }
  std::vector<char> storage;
  void* data;
};

// A [B, N, C] array `offset` floats into its storage, rows `pad` floats apart, all gaps canaries.
struct Padded {
  Padded(const TssaShape& shape, int64_t offset, int64_t pad)
      : shape(shape),
        offset(offset),
        stride(shape.channels() + pad),
        storage(offset + shape.batch * shape.tokens * stride + 16, kCanary) {}

  float& at(int64_t b, int64_t t, int64_t c) {
    return storage[offset + (b * shape.tokens + t) * stride + c];
  }
  Tokens tokens() { return {storage.data() + offset, shape.tokens * stride, stride}; }
  ConstTokens const_tokens() { return {storage.data() + offset, shape.tokens * stride, stride}; }
  void fill(uint64_t seed) {
    Random random(seed);
    for_each([&](float& x) { x = static_cast<float>(random.normal()); });
  }
  template <class F>
  void for_each(F f) {
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t t = 0; t < shape.tokens; ++t) {
        for (int64_t c = 0; c < shape.channels(); ++c) f(at(b, t, c));
      }
    }
  }
  int64_t canaries() const { return std::count(storage.begin(), storage.end(), kCanary); }
  int64_t expected_canaries() const {
    return static_cast<int64_t>(storage.size()) - shape.batch * shape.tokens * shape.channels();
  }

  TssaShape shape;
  int64_t offset;
  int64_t stride;
  std::vector<float> storage;
};

inline void two_threads(int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  std::thread other([&] { body(0, tasks / 2); });
  body(tasks / 2, tasks);
  other.join();
}
inline constexpr auto kTwoThreads = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  two_threads(tasks, body);
};

}  // namespace tost::kernels
