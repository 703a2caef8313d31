// A GPU for tests where there is none: torch's CUDA device, with its tensors in the machine's
// memory and its operators computed by the CPU's. What a real one refuses it refuses as well: an
// operator given tensors of both. So a test that passes on it has every tensor where it belongs,
// and its numbers are those of the CPU. It is there in programs that link this and not torch's CUDA
// libraries. It has no kernels and no streams.
#pragma once

#include <c10/core/Device.h>

namespace tost::testing {

// The device to test on: a real GPU in a build with CUDA, this one otherwise. Skips the test, with
// the reason, where a build with CUDA sees no GPU.
#define TOST_TEST_GPU(device)                                                   \
  if (!::tost::testing::gpu_for_tests()) {                                      \
    GTEST_SKIP() << "no CUDA device is visible: run this where there is a GPU"; \
  }                                                                             \
  [[maybe_unused]] const c10::Device device(c10::kCUDA, 0)
bool gpu_for_tests();

}  // namespace tost::testing
