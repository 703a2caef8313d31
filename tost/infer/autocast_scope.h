// Autocast on this thread inside a scope: to bfloat16, or off whatever the caller has.
#pragma once

#include <ATen/autocast_mode.h>

namespace tost {

class AutocastScope {
 public:
  explicit AutocastScope(bool active) : active_(active) {
    if (!active_) return;
    before_ = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!active_) return;
    // The cache holds bf16 copies of weights, which may change before the next scope.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool active_;
  bool before_ = false;
};

class AutocastOff {
 public:
  AutocastOff() : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  ~AutocastOff() { at::autocast::set_autocast_enabled(at::kCPU, before_); }
  AutocastOff(const AutocastOff&) = delete;
  AutocastOff& operator=(const AutocastOff&) = delete;

 private:
  const bool before_;
};

}  // namespace tost
