#include "tost/kernels/work_times.h"

#include <gtest/gtest.h>

#include <thread>

namespace tost::kernels {
namespace {

using namespace std::chrono_literals;

double of(const std::array<double, kWorkKinds>& seconds, Work kind) {
  return seconds[static_cast<size_t>(kind)];
}

TEST(WorkTimes, CountsEveryThreadAndKindWhileActive) {
  { const WorkTimer before(Work::kNorm); }
  WorkTimes::start();
  const auto work = [] {
    const WorkTimer timer(Work::kProduct);
    std::this_thread::sleep_for(3ms);
  };
  std::thread other(work);
  work();
  other.join();
  {
    const WorkTimer timer(Work::kMixing);
    std::this_thread::sleep_for(1ms);
  }
  const auto seconds = WorkTimes::stop();
  EXPECT_GE(of(seconds, Work::kProduct), 6e-3);
  EXPECT_GE(of(seconds, Work::kMixing), 1e-3);
  EXPECT_EQ(of(seconds, Work::kNorm), 0);
}

TEST(WorkTimes, StartsFromZeroAndCountsNothingWhenStopped) {
  WorkTimes::start();
  EXPECT_TRUE(WorkTimes::on());
  {
    const WorkTimer timer(Work::kFinish);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GT(of(WorkTimes::stop(), Work::kFinish), 0);
  EXPECT_FALSE(WorkTimes::on());
  {
    const WorkTimer timer(Work::kFinish);
    std::this_thread::sleep_for(1ms);
  }
  WorkTimes::start();
  EXPECT_EQ(of(WorkTimes::stop(), Work::kFinish), 0);
}

}  // namespace
}  // namespace tost::kernels
