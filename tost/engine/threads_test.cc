// Stages of work that threads share.
#include "tost/engine/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tost {
namespace {

constexpr size_t kFirst = 3, kLast = 40;

constexpr auto parts_of = [](size_t stage) { return int64_t(stage * 7 % 23); };

TEST(Stages, DoEveryPartOnceAndOneStageAfterTheOther) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::vector<std::atomic<int>>> calls(kLast);
    std::vector<std::atomic<int>> firsts(kLast), done(kLast);
    for (size_t stage = kFirst; stage < kLast; ++stage) {
      calls[stage] = std::vector<std::atomic<int>>(size_t(parts_of(stage)));
    }
    std::atomic<int> early{0}, wrong{0};
    do_stages(threads, kFirst, kLast, parts_of, [&](size_t stage, const StagePart& part) {
      if (stage > kFirst && done[stage - 1] < parts_of(stage - 1)) ++early;
      if (part.count != parts_of(stage) || part.thread < 0 || part.thread >= threads) ++wrong;
      ++calls[stage][size_t(part.index)];
      firsts[stage] += part.first;
      ++done[stage];
    });
    EXPECT_EQ(early, 0) << threads;
    EXPECT_EQ(wrong, 0) << threads;
    for (size_t stage = kFirst; stage < kLast; ++stage) {
      for (const auto& count : calls[stage]) EXPECT_EQ(count, 1) << threads << ' ' << stage;
      EXPECT_EQ(firsts[stage] > 0, parts_of(stage) > 0);
      EXPECT_LE(firsts[stage], threads);
    }
  }
}

// Thread 0 holds its first part until thread 1 has done all the others.
TEST(Stages, AreSharedWhereAThreadIsLate) {
  constexpr int64_t kParts = 16;
  set_engine_threads(2);
  const int threads = engine_threads();
  set_engine_threads(0);
  if (threads < 2) GTEST_SKIP() << "one thread, because this is built without OpenMP";
  std::atomic<int> done{0}, by_late{0};
  do_stages(
      2, 0, 1, [](size_t) { return kParts; },
      [&](size_t, const StagePart& part) {
        while (part.thread == 0 && done < kParts - 1) std::this_thread::yield();
        by_late += part.thread == 0;
        ++done;
      });
  EXPECT_EQ(done, kParts);
  EXPECT_LE(by_late, 1);
}

}  // namespace
}  // namespace tost
