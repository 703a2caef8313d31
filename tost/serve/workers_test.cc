#include "tost/serve/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace tost {
namespace {

TEST(Workers, RefuseWhereTooManyWaitAndRunTheRestAtTheEnd) {
  Workers workers(2, 3);
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::atomic<int> begun{0}, ended{0};
  const auto work = [&, open] {
    ++begun;
    open.wait();
    ++ended;
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(workers.run(work));
  while (begun < 2) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(workers.run(work));
  EXPECT_FALSE(workers.run(work));
  gate.set_value();
  workers.stop();
  EXPECT_EQ(ended, 5);
  EXPECT_FALSE(workers.run(work));
}

}  // namespace
}  // namespace tost
