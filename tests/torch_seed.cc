// Seeds torch's generator before every test, which by itself begins every process with other
// numbers: what passes once passes again. --gtest_random_seed=N begins with others.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <mutex>

namespace {

class Seed : public ::testing::EmptyTestEventListener {
  static void seed() {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(uint64_t(20 + GTEST_FLAG_GET(random_seed)));
  }
  void OnTestSuiteStart(const ::testing::TestSuite&) override { seed(); }
  void OnTestStart(const ::testing::TestInfo&) override { seed(); }
};

const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Seed);
  return true;
}();

}  // namespace
