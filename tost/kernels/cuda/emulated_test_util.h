// What the tests of the emulated kernels share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

}  // namespace tost::kernels::cuda
