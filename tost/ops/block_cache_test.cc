#include "tost/kernels/block_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tost/ops/caching_allocator.h"
#include "tost/torch.h"

namespace tost {
namespace {

class BlockCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cache.empty();
    limit = cache.stats().limit_bytes;
  }
  void TearDown() override { cache.set_limit(limit); }

  BlockCache& cache = BlockCache::instance();
  int64_t limit = 0;
};

TEST_F(BlockCacheTest, AlignedAndWritableAtEverySize) {
  for (const size_t bytes :
       {1, 63, 64, 4096, 131071, 131072, 131073, 1 << 20, (2 << 20) - 64, 2 << 20, 5000001}) {
    void* p = cache.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u) << bytes;
    std::memset(p, 0xAB, bytes);
    cache.release(p);
  }
  EXPECT_EQ(cache.allocate(0), nullptr);
  cache.release(nullptr);
  EXPECT_THROW(cache.allocate(size_t{1} << 62), std::bad_alloc);
  EXPECT_THROW(cache.allocate(SIZE_MAX), std::bad_alloc);
}

// The largest class is 15 * 2^44 bytes: no index goes beyond it, and a kept block is never handed
// out for more than it holds.
TEST_F(BlockCacheTest, RefusesWhatNoClassHolds) {
  cache.release(cache.allocate(1 << 20));
  const auto stats_before = cache.stats();
  const size_t largest = size_t{15} << 44;
  for (const size_t bytes : {largest + 1, size_t{1} << 48, size_t{5} << 46, SIZE_MAX / 4,
                             SIZE_MAX - 63, largest, largest - 1}) {
    EXPECT_THROW(cache.allocate(bytes), std::bad_alloc) << bytes;
  }
  EXPECT_EQ(cache.stats().in_use_bytes, stats_before.in_use_bytes);
  EXPECT_EQ(cache.stats().reused, stats_before.reused);
  EXPECT_EQ(cache.stats().cached_bytes, 0);  // given back before the two that a class holds failed
}

TEST_F(BlockCacheTest, GivesTheSameBlockAgain) {
  void* first = cache.allocate(3000000);
  cache.release(first);
  const auto before = cache.stats();
  EXPECT_GE(before.cached_bytes, 3000000);
  EXPECT_LE(before.cached_bytes, 3000000 * 9 / 8);
  void* second = cache.allocate(2950000);  // of the same class
  EXPECT_EQ(first, second);
  EXPECT_EQ(cache.stats().reused, before.reused + 1);
  EXPECT_EQ(cache.stats().cached_bytes, 0);
  cache.release(second);
  cache.empty();
  EXPECT_EQ(cache.stats().cached_bytes, 0);
}

TEST_F(BlockCacheTest, TheLimitHoldsAndTheOldestIsEvictedFirst) {
  cache.set_limit(5 << 20);
  void* a = cache.allocate(2 << 20);
  void* b = cache.allocate(1 << 20);
  void* c = cache.allocate(4 << 20);
  cache.release(a);
  cache.release(b);
  EXPECT_EQ(cache.stats().cached_bytes, 3 << 20);
  cache.release(c);  // there is room for b and c, not for a
  EXPECT_EQ(cache.stats().cached_bytes, 5 << 20);
  EXPECT_EQ(cache.allocate(1 << 20), b);
  cache.release(b);
  void* large = cache.allocate(6 << 20);
  cache.release(large);  // larger than the whole cache: not kept, evicts nothing
  EXPECT_EQ(cache.stats().cached_bytes, 5 << 20);
  cache.set_limit(0);
  EXPECT_EQ(cache.stats().cached_bytes, 0);
}

TEST_F(BlockCacheTest, CountsWhatIsInUse) {
  const int64_t before = cache.stats().in_use_bytes;
  cache.reset_peak();
  {
    const ScratchBlock a(1000000), b(100);
    EXPECT_EQ(cache.stats().in_use_bytes, before + 1000100);
  }
  EXPECT_EQ(cache.stats().in_use_bytes, before);
  EXPECT_EQ(cache.stats().peak_bytes, before + 1000100);
}

TEST_F(BlockCacheTest, BlocksPassBetweenThreads) {
  const int64_t before = cache.stats().in_use_bytes;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int round = 0; round < 200; ++round) {
        const size_t bytes = (1 + (round * 7 + i) % 20) * 100000;
        auto* p = static_cast<char*>(cache.allocate(bytes));
        p[0] = static_cast<char>(i);
        p[bytes - 1] = static_cast<char>(round);
        std::thread([this, p, bytes, i, round] {
          EXPECT_EQ(p[0], static_cast<char>(i));
          EXPECT_EQ(p[bytes - 1], static_cast<char>(round));
          cache.release(p);
        }).join();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(cache.stats().in_use_bytes, before);
}

TEST_F(BlockCacheTest, ServesTorch) {
  if (!install_caching_allocator()) GTEST_SKIP() << "TOST_ALLOCATOR=system";
  const int64_t before = cache.stats().in_use_bytes;
  auto x = torch::ones({1000, 1000});
  EXPECT_EQ(cache.stats().in_use_bytes, before + 4000000);
  x.resize_({2000, 1000});
  EXPECT_TRUE(torch::equal(x.slice(0, 0, 1000), torch::ones({1000, 1000})));
  x = torch::Tensor();
  EXPECT_EQ(cache.stats().in_use_bytes, before);
}

}  // namespace
}  // namespace tost
