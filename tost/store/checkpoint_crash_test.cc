// Saving and taking up again, with the disk failing or the machine stopping at every system call.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>

#include "tests/testing/crash_disk.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/manifest.h"
#include "tost/engine/run_layout.h"
#include "tost/store/checkpoint_store.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::CrashDisk;
using testing::PowerLoss;

constexpr std::array kLosses{PowerLoss::kNone, PowerLoss::kDropUnsynced, PowerLoss::kDropBytes};

Checkpoint checkpoint_at(int64_t step, double value) {
  Checkpoint checkpoint{.step = step, .parts = {}, .state = {{"step", step}}};
  checkpoint.parts.push_back({kModelFile, {{"w", torch::full({16}, value)}}, {{"format", "pt"}}});
  checkpoint.parts.push_back({kOptimizerFile, {{"exp_avg.w", torch::full({16}, -value)}}, {}});
  return checkpoint;
}

// The values of the newest checkpoint, which must be whole; nothing where there is none.
std::optional<std::pair<int64_t, double>> newest(const CheckpointStore& store) {
  std::vector<std::string> messages;
  const auto found = store.load_newest(messages);
  EXPECT_TRUE(messages.empty()) << messages.front();
  if (!found) return std::nullopt;
  const torch::Tensor w = found->parts.at(0).tensors.at("w");
  EXPECT_TRUE(torch::equal(found->parts.at(1).tensors.at("exp_avg.w"), -w));
  EXPECT_EQ(found->state.at("step"), found->step);
  return std::pair{found->step, w[0].item<double>()};
}

// What people and other programs follow.
void expect_pointers_hold(const fs::path& directory) {
  for (const char* pointer : {kLatestPointer, kBestPointer}) {
    const fs::path folder = follow_pointer(directory, pointer);
    ASSERT_FALSE(folder.empty()) << pointer;
    EXPECT_NO_THROW(verify_checkpoint(folder)) << pointer;
  }
}

void expect_only_whole_folders(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name == kLatestPointer || name == kBestPointer) continue;
    EXPECT_GE(checkpoint_step(name), 0) << "left over: " << name;
  }
}

struct SaveCase {
  const char* name;
  int64_t step;
  bool best;
};
constexpr std::array kSaves{SaveCase{"a new step", 3, false}, SaveCase{"a new best step", 3, true},
                            SaveCase{"the same step again", 2, true}};

// Two checkpoints, the first the best; then `save` on a disk that stops at call k.
struct Scene {
  explicit Scene(const fs::path& root) : directory(root / "checkpoints") {
    CheckpointStore store(directory, 2);
    store.save(checkpoint_at(1, 0.125), true);
    store.save(checkpoint_at(2, 0.25), false);
  }
  bool save(const SaveCase& what) const {
    try {
      CheckpointStore(directory, 2).save(checkpoint_at(what.step, 0.5), what.best);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  fs::path directory;
};

int64_t calls_of(const SaveCase& what) {
  const testing::TempDir dir;
  CrashDisk disk(dir.path());
  const Scene scene(dir.path());
  disk.run_on();
  EXPECT_TRUE(scene.save(what));
  return disk.calls();
}

TEST(CheckpointCrashSlow, StoppedAtEveryCallLosesNothing) {
  for (const SaveCase& what : kSaves) {
    const int64_t calls = calls_of(what);
    ASSERT_GT(calls, 30);
    std::set<double> seen;
    for (int64_t k = 0; k <= calls; ++k) {
      for (const PowerLoss loss : kLosses) {
        SCOPED_TRACE(cat(what.name, ", stopped at call ", k, " of ", calls, ", loss ", int(loss)));
        const testing::TempDir dir;
        CrashDisk disk(dir.path());
        const Scene scene(dir.path());
        disk.stop_at(k);
        const bool saved = scene.save(what);
        disk.lose_power(loss);

        CheckpointStore store(scene.directory, 2);
        store.clean();
        const auto found = newest(store);
        ASSERT_TRUE(found);
        seen.insert(found->second);
        if (saved) {
          EXPECT_EQ(*found, (std::pair{what.step, 0.5}));
        } else if (found->second != 0.5) {
          EXPECT_EQ(*found, (std::pair{int64_t{2}, 0.25}));
        }
        expect_pointers_hold(scene.directory);
        expect_only_whole_folders(scene.directory);
        store.save(checkpoint_at(9, 0.75), false);
        EXPECT_EQ(newest(store), (std::pair{int64_t{9}, 0.75}));
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_EQ(seen, (std::set<double>{0.25, 0.5})) << "both outcomes must occur";
  }
}

TEST(CheckpointCrashSlow, StoppedWhileClearingUpAfterAStop) {
  const int64_t calls = calls_of(kSaves[2]);
  for (int64_t k = 0; k <= calls; k += 3) {
    for (int64_t second = 0; second < 12; ++second) {
      SCOPED_TRACE(cat("stopped at call ", k, ", then at call ", second, " of clearing up"));
      const testing::TempDir dir;
      CrashDisk disk(dir.path());
      const Scene scene(dir.path());
      disk.stop_at(k);
      scene.save(kSaves[2]);
      disk.lose_power(PowerLoss::kNone);
      disk.stop_at(second);
      try {
        CheckpointStore(scene.directory, 2).clean();
      } catch (const Error&) {
      }
      disk.lose_power(PowerLoss::kDropUnsynced);
      CheckpointStore store(scene.directory, 2);
      store.clean();
      ASSERT_TRUE(newest(store));
      expect_pointers_hold(scene.directory);
      expect_only_whole_folders(scene.directory);
    }
  }
}

TEST(CheckpointCrashSlow, AFullDiskAtEveryCallIsReportedAndLeavesTheOldOnes) {
  const SaveCase what = kSaves[1];
  const int64_t calls = calls_of(what);
  int64_t failures = 0;
  for (int64_t k = 0; k < calls; ++k) {
    SCOPED_TRACE(cat("full from call ", k, " of ", calls));
    const testing::TempDir dir;
    CrashDisk disk(dir.path());
    const Scene scene(dir.path());
    disk.fail_at(k, ENOSPC);
    try {
      CheckpointStore(scene.directory, 2).save(checkpoint_at(what.step, 0.5), what.best);
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find("the disk is full"), std::string::npos)
          << error.what();
    }
    disk.run_on();
    CheckpointStore store(scene.directory, 2);
    const auto found = newest(store);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->second == 0.25 || found->second == 0.5);
    expect_pointers_hold(scene.directory);
    store.save(checkpoint_at(4, 0.375), false);
    EXPECT_EQ(newest(store), (std::pair{int64_t{4}, 0.375}));
  }
  EXPECT_GT(failures, calls / 2);
}

}  // namespace
}  // namespace tost
