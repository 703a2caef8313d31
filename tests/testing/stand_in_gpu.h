// A GPU for tests where there is none: torch's CUDA device, with its tensors in the machine's
// memory and its operators computed by the CPU's. Like a real GPU it refuses operators whose
// tensors are on different devices. So a test that passes on it has every tensor on the right
// device. It exists in programs that link this file and not torch's CUDA libraries, and has no
// kernels and no streams.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

namespace tost::testing {

// Sets `device` to a real GPU in a build with CUDA, else to the stand-in. Skips the test with a
// reason where a build with CUDA sees no GPU.
#define TOST_TEST_GPU(device)                                                   \
  if (!::tost::testing::gpu_for_tests()) {                                      \
    GTEST_SKIP() << "no CUDA device is visible: run this where there is a GPU"; \
  }                                                                             \
  [[maybe_unused]] const c10::Device device(c10::kCUDA, 0)
bool gpu_for_tests();

// Turns autocast to bfloat16 on while the object exists.
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
