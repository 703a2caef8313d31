// Scopes in which modules compute at a precision, and autocast of a device.
#pragma once

#include <ATen/autocast_mode.h>

#include "tost/engine/precision.h"
#include "tost/torch.h"

namespace tost {

enum class Autocast { kAsItIs, kOff, kBfloat16 };

class DeviceAutocast {
 public:
  explicit DeviceAutocast(Autocast wanted, at::DeviceType device = at::kCPU)
      : wanted_(wanted), device_(device) {
    if (wanted_ == Autocast::kAsItIs) return;
    before_ = at::autocast::is_autocast_enabled(device_);
    at::autocast::set_autocast_enabled(device_, wanted_ == Autocast::kBfloat16);
    if (wanted_ == Autocast::kBfloat16) {
      type_before_ = at::autocast::get_autocast_dtype(device_);
      at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    }
    at::autocast::increment_nesting();
  }
  ~DeviceAutocast() {
    if (wanted_ == Autocast::kAsItIs) return;
    // Clears the cache, because its bf16 copies of weights must not survive an optimiser step.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    if (wanted_ == Autocast::kBfloat16) at::autocast::set_autocast_dtype(device_, type_before_);
    at::autocast::set_autocast_enabled(device_, before_);
  }
  DeviceAutocast(const DeviceAutocast&) = delete;
  DeviceAutocast& operator=(const DeviceAutocast&) = delete;

 private:
  const Autocast wanted_;
  const at::DeviceType device_;
  bool before_ = false;
  at::ScalarType type_before_ = at::kBFloat16;
};

// Disables the cache of cast weights while in scope, because a copy cached without gradients would
// lose the weight's gradient.
class NoCastCache {
 public:
  NoCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCache(const NoCastCache&) = delete;
  NoCastCache& operator=(const NoCastCache&) = delete;

 private:
  const bool before_;
};

// Disables autocast on every device while in scope.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard all{c10::autocast_dispatch_keyset};
};

// Sets the precision of matrix products on this thread while in scope: bf16 enables autocast to
// bfloat16 for this device, fp32 does nothing. Throws a usage Error for other names.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, torch::Device device = torch::kCPU);

 private:
  DeviceAutocast scope_;
};

// bf16 rounds every parameter to bfloat16, which halves the bytes that decoding reads; fp32 does
// nothing. Throws a usage Error for other names.
void use_precision(torch::nn::Module& model, Precision precision);

}  // namespace tost
