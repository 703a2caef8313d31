#include "tost/train/background_saver.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/testing/crash_disk.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/run_layout.h"

namespace tost {
namespace {

using namespace std::chrono_literals;
using testing::CrashDisk;

Checkpoint checkpoint_of(int64_t step, const torch::Tensor& w) {
  Checkpoint checkpoint{.step = step, .parts = {}, .state = {{"step", step}}};
  checkpoint.parts.push_back({kModelFile, {{"w", w}}, {}});
  checkpoint.parts.push_back({kOptimizerFile, {{"m", w}}, {}});
  return checkpoint;
}

torch::Tensor newest_w(const CheckpointStore& store) {
  std::vector<std::string> messages;
  return store.load_newest(messages)->parts.at(0).tensors.at("w");
}

TEST(BackgroundSaver, WritesTheTensorsAsTheyWereAtTheCall) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  BackgroundSaver saver(store, {});
  torch::Tensor w = torch::zeros({1 << 20});
  for (int64_t step = 1; step <= 3; ++step) {
    saver.save(checkpoint_of(step, w), false);
    w.fill_(double(step));  // at once, while the thread writes
  }
  saver.wait();
  EXPECT_TRUE(torch::equal(newest_w(store), torch::full({1 << 20}, 2.0)));
  const auto report = saver.take_report();
  ASSERT_EQ(report.finished.size(), 3u);
  EXPECT_EQ(report.finished.back().filename(), "step-000000003");
  EXPECT_TRUE(report.messages.empty());
  EXPECT_TRUE(saver.take_report().finished.empty());
}

TEST(BackgroundSaver, TriesAgainAfterAFailureThatPasses) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  CrashDisk disk(dir.path());
  disk.fail_at(6, EIO);
  BackgroundSaver saver(store, {1ms, 1ms});
  saver.save(checkpoint_of(1, torch::ones({4})), true);
  saver.wait();
  const auto report = saver.take_report();
  EXPECT_EQ(report.finished.size(), 1u);
  ASSERT_EQ(report.messages.size(), 1u);
  EXPECT_NE(report.messages[0].find("Trying again"), std::string::npos);
  EXPECT_TRUE(torch::equal(newest_w(store), torch::ones({4})));
}

TEST(BackgroundSaver, ALastingFailureIsThrownOnceAndTheOldCheckpointStays) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  store.save(checkpoint_of(1, torch::ones({4})), true);
  CrashDisk disk(dir.path());
  disk.stop_at(6);
  BackgroundSaver saver(store, {1ms});
  saver.save(checkpoint_of(2, torch::zeros({4})), false);
  EXPECT_THROW(saver.wait(), Error);
  EXPECT_NO_THROW(saver.wait());
  EXPECT_TRUE(saver.take_report().finished.empty());
  disk.run_on();
  store.clean();
  EXPECT_TRUE(torch::equal(newest_w(store), torch::ones({4})));
  saver.save(checkpoint_of(3, torch::zeros({4})), false);
  saver.wait();
  EXPECT_TRUE(torch::equal(newest_w(store), torch::zeros({4})));
}

TEST(BackgroundSaver, SavesOnTheCallersThreadIfRequested) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  BackgroundSaver saver(store, {1ms});
  saver.save_now(checkpoint_of(1, torch::ones({4})), true);
  EXPECT_EQ(store.list().size(), 1u);
  EXPECT_EQ(saver.take_report().finished.size(), 1u);
  CrashDisk disk(dir.path());
  disk.stop_at(0);
  EXPECT_THROW(saver.save_now(checkpoint_of(2, torch::ones({4})), true), Error);
  EXPECT_EQ(saver.take_report().messages.size(), 1u);
}

TEST(BackgroundSaver, DestructionFinishesTheSave) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  { BackgroundSaver(store, {}).save(checkpoint_of(5, torch::ones({1 << 18})), false); }
  EXPECT_EQ(store.list().size(), 1u);
}

TEST(BackgroundSaver, AFailedSaveDoesNotKeepTheNextOneFromDisk) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  CrashDisk disk(dir.path());
  BackgroundSaver saver(store, {});
  disk.fail_at(3, ENOSPC);
  saver.save(checkpoint_of(1, torch::zeros({4})), false);
  saver.save(checkpoint_of(2, torch::ones({4})), false);  // the disk is well again
  EXPECT_NO_THROW(saver.wait());
  const auto report = saver.take_report();
  ASSERT_EQ(report.messages.size(), 1u);
  EXPECT_NE(report.messages[0].find("step 1"), std::string::npos);
  ASSERT_EQ(report.finished.size(), 1u);
  EXPECT_TRUE(torch::equal(newest_w(store), torch::ones({4})));
}

// Refuses tensors above 1 MB.
class LittleMemory : public c10::Allocator {
 public:
  explicit LittleMemory(c10::Allocator* rest) : rest_(rest) {}
  c10::DataPtr allocate(size_t bytes) override {
    TORCH_CHECK(bytes < (1 << 20), "can't allocate memory: you tried to allocate ", bytes);
    return rest_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return rest_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    rest_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* rest_;
};

TEST(BackgroundSaver, WithoutMemoryForACopySavesAtOnce) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  BackgroundSaver saver(store, {});
  torch::Tensor w = torch::ones({1 << 20});
  static LittleMemory little(c10::GetCPUAllocator());
  c10::Allocator* usual = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&little, /*priority=*/1);
  EXPECT_NO_THROW(saver.save(checkpoint_of(1, w), true));
  c10::SetCPUAllocator(usual, /*priority=*/1);
  w.fill_(2);
  EXPECT_NO_THROW(saver.wait());
  EXPECT_EQ(saver.take_report().finished.size(), 1u);
  EXPECT_TRUE(torch::equal(newest_w(store), torch::ones({1 << 20})));
}

TEST(BackgroundSaver, PausesGrowToTenSeconds) {
  EXPECT_TRUE(retry_pauses(0).empty());
  EXPECT_EQ(retry_pauses(5),
            (std::vector<std::chrono::milliseconds>{500ms, 2000ms, 8000ms, 10000ms, 10000ms}));
}

}  // namespace
}  // namespace tost
