// A GPU for tests where there is none: torch's CUDA device, with its tensors in the machine's
// memory and its operators computed by the CPU's. Like a real GPU it refuses an operator on tensors
// of both devices. So a test that passes on it has every tensor where it belongs, and its numbers
// are those of the CPU. It exists in programs that link this and not torch's CUDA libraries. It has
// no kernels and no streams.
#pragma once

#include <ATen/autocast_mode.h>
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

// Bfloat16 autocast for the life of the object.
class Bfloat16Autocast {
 public:
  explicit Bfloat16Autocast(bool enabled = true) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
  }
  ~Bfloat16Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

}  // namespace tost::testing
