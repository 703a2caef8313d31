// One piece of memory cut into many: an engine lays its workspace out twice, first to learn how
// much it takes, then on memory of that size.
#pragma once

#include <cstdint>

#include "tost/base/rounding.h"

namespace tost {

class ScratchMemory {
 public:
  // Without `base` it only counts.
  explicit ScratchMemory(char* base = nullptr) : base_(base) {}

  // `bytes` on a cache line; null while counting.
  template <class T>
  T* take(int64_t bytes) {
    // Pages apart by a line more than they hold, so that pieces do not all start in the same set of
    // the caches.
    auto* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(bytes) + 64;
    return piece;
  }

  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

}  // namespace tost
