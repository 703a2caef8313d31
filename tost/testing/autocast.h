// Bfloat16 autocast for the life of the object.
#pragma once

#include <ATen/autocast_mode.h>

namespace tost::testing {

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
