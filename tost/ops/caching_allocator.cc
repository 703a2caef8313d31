#include "tost/ops/caching_allocator.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace tost {
namespace {

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = BlockCache::instance().allocate(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void release(void* data) { BlockCache::instance().release(data); }
};

c10::Allocator* allocator() {
  static auto* made = new CachingAllocator;  // never destroyed: tensors may outlive static objects
  return made;
}

}  // namespace

bool install_caching_allocator() {
  if (!caching_allocator_enabled()) return false;
  c10::SetCPUAllocator(allocator());
  return true;
}

at::Tensor empty_cached(at::IntArrayRef sizes, at::ScalarType dtype) {
  auto* source = caching_allocator_enabled() ? allocator() : c10::GetCPUAllocator();
  const c10::DispatchKeySet keys(c10::DispatchKey::CPU);
  return at::Tensor(at::detail::empty_generic(sizes, source, keys, dtype, std::nullopt));
}

}  // namespace tost
