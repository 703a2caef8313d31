#include "tost/kernels/block_cache.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/posix.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace tost {
namespace {

constexpr size_t kHeader = 64;
constexpr std::align_val_t kAlignment{64};
constexpr size_t kMinCached = 128 << 10;
#if defined(__EMSCRIPTEN__) || defined(_WIN32)
constexpr size_t kHugePage = SIZE_MAX;  // a browser has none; Windows frees no part of a mapping
#else
constexpr size_t kHugePage = 2 << 20;
#endif
constexpr int kUncached = -1;  // class of blocks that go straight to malloc

// Size classes: m 2^(e-3) bytes, with m in 8..15, are class 8 e + (m - 8).
int size_class_of(size_t bytes) {
  const int exponent = static_cast<int>(std::bit_width(bytes)) - 1;
  const size_t step = size_t{1} << (exponent - 3);
  const size_t steps = (bytes + step - 1) / step;  // 8..16; 16 is the first of the next power
  return steps == 16 ? 8 * (exponent + 1) : 8 * exponent + static_cast<int>(steps - 8);
}
size_t class_bytes(int size_class) {
  return (size_t{8} + size_class % 8) << (size_class / 8 - 3);
}

void* system_allocate(size_t bytes) {
  if (bytes < kHugePage) return ::operator new(bytes, kAlignment, std::nothrow);
  // Maps one huge page more than needed, then unmaps both ends.
  const size_t room = bytes + kHugePage;
  void* p = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* base = static_cast<char*>(p);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  if (before > 0) munmap(base, before);
  if (room > before + used) munmap(base + before + used, room - before - used);
  madvise(base + before, used, MADV_HUGEPAGE);
  return base + before;
}

void system_release(void* base, size_t bytes) {
  if (bytes < kHugePage) {
    ::operator delete(base, kAlignment);
    return;
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(base, (bytes + page - 1) / page * page);
}

// The default limit of the cache: a quarter of the memory that this process may use.
int64_t default_limit() {
  int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t group = 0;
  if (file >> group && group > 0) memory = std::min(memory, group);  // the file may also say "max"
  return memory / 4;
}

}  // namespace

void forget_pages(const char* data, size_t bytes) {
#if defined(__linux__)
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  if (bytes < before + page) return;
  madvise(const_cast<char*>(data) + before, (bytes - before) / page * page, MADV_DONTNEED);
#endif
}

// The header of a block, in the 64 bytes before the data.
struct BlockCache::Block {
  size_t requested;
  int size_class;
  Block* class_next;
  Block* class_prev;
  Block* older;
  Block* newer;

  void* data() { return reinterpret_cast<char*>(this) + kHeader; }
  static Block* of(void* data) {
    return reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
  }
};

BlockCache& BlockCache::instance() {
  static BlockCache* cache = [] {
    auto* made = new BlockCache;
    // Holds the lock during fork(), so that no child inherits a lock that another thread holds.
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
    return made;
  }();
  return *cache;
}

BlockCache::BlockCache() {
  static_assert(sizeof(Block) <= kHeader);
  stats_.limit_bytes = default_limit();
}

void* BlockCache::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > class_bytes(kClasses - 1)) throw OutOfMemory(bytes);  // more than the classes reach
  const bool cached = bytes >= kMinCached;
  const int size_class = cached ? size_class_of(bytes) : kUncached;
  const size_t capacity = cached ? class_bytes(size_class) : bytes;
  Block* block = nullptr;
  if (cached) {
    const std::lock_guard lock(mutex_);
    block = take_cached(size_class);
  }
  if (block == nullptr) {
    void* base = system_allocate(capacity + kHeader);
    if (base == nullptr) {
      empty();
      base = system_allocate(capacity + kHeader);
      if (base == nullptr) throw OutOfMemory(bytes);
    }
    block = static_cast<Block*>(base);
    block->size_class = size_class;
  }
  block->requested = bytes;
  ASAN_UNPOISON_MEMORY_REGION(block->data(), capacity);
  count_in_use(static_cast<int64_t>(bytes));
  return block->data();
}

void BlockCache::release(void* data) noexcept {
  if (data == nullptr) return;
  Block* block = Block::of(data);
  count_in_use(-static_cast<int64_t>(block->requested));
  if (block->size_class == kUncached) {
    ::operator delete(block, kAlignment);
    return;
  }
  const auto capacity = static_cast<int64_t>(class_bytes(block->size_class));
  const std::lock_guard lock(mutex_);
  if (capacity > stats_.limit_bytes) {
    system_release(block, capacity + kHeader);
    return;
  }
  trim(stats_.limit_bytes - capacity);
  ASAN_POISON_MEMORY_REGION(data, capacity);
  Block*& head = by_class_[block->size_class];
  block->class_prev = nullptr;
  block->class_next = head;
  if (head != nullptr) head->class_prev = block;
  head = block;
  block->newer = nullptr;
  block->older = newest_;
  (newest_ != nullptr ? newest_->newer : oldest_) = block;
  newest_ = block;
  stats_.cached_bytes += capacity;
}

BlockCache::Block* BlockCache::take_cached(int size_class) {
  Block* block = by_class_[size_class];
  if (block == nullptr) {
    ++stats_.fresh;
    return nullptr;
  }
  unlink(block);
  ++stats_.reused;
  return block;
}

void BlockCache::unlink(Block* block) {
  (block->class_prev != nullptr ? block->class_prev->class_next : by_class_[block->size_class]) =
      block->class_next;
  if (block->class_next != nullptr) block->class_next->class_prev = block->class_prev;
  (block->newer != nullptr ? block->newer->older : newest_) = block->older;
  (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
  stats_.cached_bytes -= static_cast<int64_t>(class_bytes(block->size_class));
}

void BlockCache::trim(int64_t limit) {
  while (oldest_ != nullptr && stats_.cached_bytes > limit) {
    Block* block = oldest_;
    unlink(block);
    const size_t capacity = class_bytes(block->size_class);
    ASAN_UNPOISON_MEMORY_REGION(block->data(), capacity);
    system_release(block, capacity + kHeader);
  }
}

void BlockCache::empty() {
  const std::lock_guard lock(mutex_);
  trim(0);
}

void BlockCache::set_limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.limit_bytes = std::max<int64_t>(0, bytes);
  trim(stats_.limit_bytes);
}

void BlockCache::count_in_use(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.in_use_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
}

void BlockCache::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.in_use_bytes;
}

BlockCacheStats BlockCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool caching_allocator_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("TOST_ALLOCATOR");
    const std::string_view name = value == nullptr ? "caching" : value;
    if (name != "caching" && name != "system") {
      fail_usage("TOST_ALLOCATOR is '", name, "'; use caching or system.");
    }
    return name == "caching";
  }();
  return enabled;
}

}  // namespace tost
