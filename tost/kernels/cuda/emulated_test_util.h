// What the tests of the emulated kernels share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tost/kernels/cuda/device.cuh"
#include "tost/kernels/tssa.h"

namespace tost::kernels::cuda {

// Every difference is at most `limit` of the largest wanted value (or of `floor`).
template <class T>
void expect_close(const std::vector<T>& found, const std::vector<T>& wanted, double limit,
                  const char* what, double floor = 1e-30) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  double most = floor;
  for (const T x : wanted) most = std::max<double>(most, std::abs(x));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - wanted[i]), limit * most)
        << what << "[" << i << "]: " << found[i] << " for " << wanted[i];
  }
}

// Threads of a block run in reverse order while this is in scope.
struct DescendingThreads {
  DescendingThreads() { emulator::descending = true; }
  ~DescendingThreads() { emulator::descending = false; }
};

// Values rounded to a 16-bit storage, and back.
template <class T>
std::vector<T> stored(const std::vector<float>& values) {
  std::vector<T> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) store(&result[i], values[i]);
  return result;
}
template <class T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_float(values[i]);
  return result;
}

}  // namespace tost::kernels::cuda
