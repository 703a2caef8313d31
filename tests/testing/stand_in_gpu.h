// A stand-in for a GPU in tests: torch's CUDA device, whose tensors are in main memory and whose
// operators the CPU computes. The stand-in refuses operators whose tensors are on different
// devices, as a real GPU does. A test that passes on the stand-in thus has every tensor on the
// right device. Programs that link this file and not torch's CUDA libraries have the stand-in.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

namespace tost::testing {

// Sets `device` to a real GPU in a build with CUDA, else to the stand-in. Skips the test, with a
// reason, if a build with CUDA finds no GPU.
#define TOST_TEST_GPU(device)                                                   \
  if (!::tost::testing::gpu_for_tests()) {                                      \
    GTEST_SKIP() << "no CUDA device is visible: run this where there is a GPU"; \
  }                                                                             \
  [[maybe_unused]] const c10::Device device(c10::kCUDA, 0)
bool gpu_for_tests();

// Enables autocast to bfloat16 while the object exists.
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
