// Memory for tensors that is cached when it is freed. A fresh 25 MB output costs 1 to 3 ms of page
// faults, more than the whole operator; a block from this cache costs none.
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

// The message states the requested size.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes) {
    std::snprintf(text_, sizeof text_, "Not enough memory for %zu bytes.", bytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];
};

// Blocks of 128 KiB and more are cached in classes an eighth of a power of two apart and reused,
// last released first. At the limit the block that was unused longest is freed. Blocks of 2 MiB and
// more are aligned to huge pages and request them. Smaller blocks go straight to malloc.
// Thread-safe; blocks may be released by another thread than the allocating one. Content of a block
// is undefined.
class BlockCache {
 public:
  // One for the process, never destroyed, so that tensors may outlive static objects.
  static BlockCache& instance();

  // 64-byte aligned; null for 0 bytes. Throws OutOfMemory, after giving the cache back, when there
  // is none.
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
  static constexpr int kClasses = 8 * 48;

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

// A piece of scratch memory for the length of a scope.
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

}  // namespace tost
