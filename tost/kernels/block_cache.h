// Allocates memory for tensors, and caches freed memory. A new 25 MB output causes 1 to 3 ms of
// page faults, more than the whole operator takes; a block from the cache causes none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

namespace tost {

struct BlockCacheStats {
  int64_t in_use_bytes = 0;  // allocated and not yet released
  int64_t peak_bytes = 0;    // highest in_use_bytes since the start or reset_peak()
  int64_t cached_bytes = 0;  // released by the caller, cached here
  int64_t limit_bytes = 0;   // cached_bytes never exceeds it
  int64_t reused = 0;        // large blocks served from the cache
  int64_t fresh = 0;         // large blocks obtained from the system
};

// Thrown when memory is exhausted; the message states the requested size.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes) {
    std::snprintf(text_, sizeof text_, "Not enough memory for %zu bytes.", bytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];
};

// Gives back the whole pages within a part of a private file mapping, which is read from the file
// when it is used again. Does nothing on other systems than Linux.
void forget_pages(const char* data, size_t bytes);

// Caches released blocks of 128 KiB and more, in eight size classes for each power of two, and
// reuses the block that was released last. At the limit, frees the block that was unused longest.
// Blocks of 2 MiB and more are aligned to huge pages, which are requested from the system. Smaller
// blocks come from malloc. Thread-safe; any thread may release a block. Contents are undefined.
class BlockCache {
 public:
  // The cache of the process, never destroyed, so that tensors may outlive static objects.
  static BlockCache& instance();

  // Returns memory aligned to 64 bytes; null for 0 bytes. If memory is exhausted, frees the cache
  // and tries again, and then throws OutOfMemory.
  void* allocate(size_t bytes);
  void release(void* data) noexcept;

  void empty();  // returns every cached block to the system
  void set_limit(int64_t bytes);
  void reset_peak();
  BlockCacheStats stats() const;

  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

 private:
  struct Block;
  static constexpr int kClasses = 8 * (sizeof(size_t) == 8 ? 48 : 31);

  BlockCache();
  Block* take_cached(int size_class);
  void trim(int64_t limit);
  void unlink(Block* block);
  void count_in_use(int64_t bytes);

  mutable std::mutex mutex_;
  std::array<Block*, kClasses> by_class_{};  // last released first
  Block* newest_ = nullptr;                  // all cached blocks by time of release
  Block* oldest_ = nullptr;
  BlockCacheStats stats_;
};

// Temporary memory that the destructor releases.
class ScratchBlock {
 public:
  explicit ScratchBlock(size_t bytes) : data_(BlockCache::instance().allocate(bytes)) {}
  ~ScratchBlock() { BlockCache::instance().release(data_); }
  ScratchBlock(const ScratchBlock&) = delete;
  ScratchBlock& operator=(const ScratchBlock&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
};

// Whether torch allocates from this cache: unless TOST_ALLOCATOR is "system". Throws a usage Error
// for any other value than that and "caching".
bool caching_allocator_enabled();

}  // namespace tost
