#include "tost/train/run_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/testing/crash_disk.h"
#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/store/checkpoint_store.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::CrashDisk;
using testing::mentions;
using testing::PowerLoss;

std::string config(int64_t seed) {
  return nlohmann::json{{"recipe", "small"}, {"seed", seed}, {"log_every", 1}, {"keep_last", 2}}
      .dump();
}

void begin_run(const fs::path& run, int64_t seed) {
  write_file_atomic(run / kConfigFile, config(seed));
  write_file_atomic(run / kModelInfoFile, "{}");
  write_file_atomic(run / kMetricsFile, cat("{\"seed\":", seed, "}\n"));
  write_file_atomic(run / cat("events.out.tfevents.", seed, ".0.tost"), "curves");
}

void save(const fs::path& run, int64_t step) {
  Checkpoint checkpoint{.step = step, .parts = {}, .state = {{"step", step}}};
  for (const char* file : {kModelFile, kOptimizerFile}) {
    checkpoint.parts.push_back({file, {{"w", torch::full({4}, double(step))}}, {}});
  }
  CheckpointStore(run / kCheckpointFolder, 2).save(checkpoint, true);
}

// A run of seed 1 with two checkpoints, and what else people keep there.
void make_old(const fs::path& run) {
  make_directories(run);
  begin_run(run, 1);
  save(run, 10);
  save(run, 20);
  make_directories(run / kCheckpointFolder / "mywork");
  write_file_atomic(run / kCheckpointFolder / "mywork" / "weights.bin", "mine");
  write_file_atomic(run / "notes.txt", "mine");
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.insert(fs::relative(entry.path(), folder).string());
  }
  files.erase(".lock");
  return files;
}

int64_t newest_step(const fs::path& run) {
  std::vector<std::string> messages;
  const auto found = CheckpointStore(run / kCheckpointFolder, 2).load_newest(messages);
  EXPECT_TRUE(messages.empty());
  return found ? found->step : -1;
}

std::string seed_of(const fs::path& run) {
  const std::string text = read_file(run / kConfigFile, 1000);
  return text == config(1) ? "old" : text == config(2) ? "new" : text;
}

std::string refusal(const fs::path& run, RunMode mode) {
  return testing::usage_error_of([&] { RunFolder(run, mode).open(); });
}

TEST(RunFolder, SaysWhatIsThereAndLeavesOthersFoldersAlone) {
  const testing::TempDir dir;
  const fs::path none = dir.path() / "none", old = dir.path() / "old", other = dir.path() / "other",
                 bare = dir.path() / "bare";
  EXPECT_TRUE(mentions(refusal("", RunMode::kNew), "name of the run folder is empty"));
  const fs::path link = dir.path() / "link";
  fs::create_directory_symlink("/", link);
  for (const fs::path& root : {fs::path("/"), fs::path("/proc/.."), link}) {
    EXPECT_TRUE(mentions(testing::usage_error_of([&] { RunFolder(root, RunMode::kNew); }),
                         "is the root of the file system"))
        << root;
  }
  EXPECT_TRUE(mentions(refusal(none, RunMode::kResume), "holds no run to resume"));
  EXPECT_FALSE(fs::exists(none));
  make_old(old);
  EXPECT_TRUE(mentions(refusal(old, RunMode::kNew), "already holds a run"));
  make_directories(other / kCheckpointFolder / "mywork");
  write_file_atomic(other / kConfigFile, R"({"recipe": "small", "name": "somebody's"})");
  write_file_atomic(other / kCheckpointFolder / "mywork" / "weights.bin", "mine");
  make_directories(bare / kCheckpointFolder);
  for (const auto& [folder, words] : {std::pair{other, "is not the configuration of a run"},
                                      {bare, "holds checkpoints but no"}}) {
    const auto before = files_below(folder);
    for (const RunMode mode : {RunMode::kNew, RunMode::kOverwrite}) {
      EXPECT_TRUE(mentions(refusal(folder, mode), words)) << refusal(folder, mode);
    }
    EXPECT_EQ(files_below(folder), before);
  }
  EXPECT_TRUE(mentions(refusal(bare, RunMode::kResume), "holds checkpoints but no"));
}

TEST(RunFolder, OneProcessAtATime) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run";
  {
    RunFolder first(run, RunMode::kNew);
    RunFolder second(run, RunMode::kNew);  // nothing is there yet for either
    first.open();
    EXPECT_TRUE(mentions(testing::usage_error_of([&] { second.open(); }), "Another process"));
    begin_run(run, 1);
    EXPECT_TRUE(mentions(refusal(run, RunMode::kResume), "Another process"));
    EXPECT_TRUE(mentions(refusal(run, RunMode::kOverwrite), "Another process"));
  }
  EXPECT_EQ(refusal(run, RunMode::kResume), "");
}

TEST(RunFolder, TheReplacedRunComesBackUnlessTheNewOneHasACheckpoint) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run";
  make_old(run);
  const auto before = files_below(run);
  for (const bool begins : {false, true}) {
    RunFolder folder(run, RunMode::kOverwrite);
    EXPECT_EQ(files_below(run), before) << "nothing is touched before the new run can start";
    folder.open();
    EXPECT_EQ(newest_step(run), -1);
    if (begins) begin_run(run, 2);
    EXPECT_TRUE(folder.finish());
    EXPECT_EQ(files_below(run), before);
    EXPECT_EQ(seed_of(run), "old");
    EXPECT_EQ(newest_step(run), 20);
  }
  {
    RunFolder folder(run, RunMode::kOverwrite);
    folder.open();
    begin_run(run, 2);
    save(run, 5);
    EXPECT_FALSE(folder.finish());
  }
  EXPECT_EQ(seed_of(run), "new");
  EXPECT_EQ(newest_step(run), 5);
  std::set<std::string> files = files_below(run);
  for (const char* user_file : {"notes.txt", "checkpoints/mywork/weights.bin"}) {
    EXPECT_EQ(files.count(user_file), 1u) << user_file;
  }
  EXPECT_EQ(files.count("events.out.tfevents.1.0.tost"), 0u);
  for (const std::string& file : files) EXPECT_FALSE(mentions(file, ".replaced")) << file;
}

// Killed before its first checkpoint, the new run can be resumed or replaced, and the old one is
// kept until there is one, or until the new one fails.
TEST(RunFolder, AKilledReplacementKeepsBoth) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run";
  make_old(run);
  const auto before = files_below(run);
  const auto begin = [&](RunMode mode) {
    RunFolder folder(run, mode);
    folder.open();
    begin_run(run, 2);
  };
  begin(RunMode::kOverwrite);
  EXPECT_EQ(seed_of(run), "new");
  begin(RunMode::kResume);
  begin(RunMode::kOverwrite);
  EXPECT_TRUE(mentions(refusal(run, RunMode::kNew), "already holds a run"));
  EXPECT_EQ(seed_of(run), "new");
  RunFolder folder(run, RunMode::kResume);
  folder.open();
  EXPECT_TRUE(folder.finish());
  EXPECT_EQ(files_below(run), before);
}

// What a launch made is told from what lay there before, whatever becomes of either.
TEST(RunFolder, KnowsTheLaunchThatMadeTheRun) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run", fresh = dir.path() / "fresh";
  make_old(run);
  EXPECT_FALSE(made_by_launch(run, "a"));
  EXPECT_TRUE(mentions(testing::usage_error_of([&] { RunFolder(run, RunMode::kNew, "a"); }),
                       "already holds a run"));
  EXPECT_FALSE(made_by_launch(run, "a"));
  {
    RunFolder folder(run, RunMode::kResume, "a");
    folder.open();
  }
  EXPECT_FALSE(made_by_launch(run, "a"));
  {
    RunFolder folder(run, RunMode::kOverwrite, "a");
    folder.open();
    EXPECT_FALSE(made_by_launch(run, "a")) << "nothing is there yet";
    begin_run(run, 2);
    EXPECT_TRUE(made_by_launch(run, "a"));
    EXPECT_FALSE(made_by_launch(run, "b"));
    EXPECT_TRUE(folder.finish());
  }
  EXPECT_EQ(seed_of(run), "old");
  EXPECT_FALSE(made_by_launch(run, "a"));
  {
    RunFolder folder(fresh, RunMode::kNew, "a");
    folder.open();
    begin_run(fresh, 1);
  }
  EXPECT_TRUE(made_by_launch(fresh, "a"));
  RunFolder folder(fresh, RunMode::kOverwrite);
  folder.open();
  begin_run(fresh, 2);
  EXPECT_FALSE(made_by_launch(fresh, "a")) << "replaced by hand";
}

TEST(RunFolder, ALinkToCheckpointsElsewhereIsMovedAlone) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run", disk = dir.path() / "disk";
  make_old(run);
  fs::rename(run / kCheckpointFolder, disk);
  fs::create_directory_symlink(disk, run / kCheckpointFolder);
  RunFolder folder(run, RunMode::kOverwrite);
  folder.open();
  begin_run(run, 2);
  EXPECT_EQ(newest_step(run), -1);
  EXPECT_TRUE(folder.finish());
  EXPECT_TRUE(fs::is_symlink(run / kCheckpointFolder));
  EXPECT_EQ(newest_step(run), 20);
}

// A replacement on a disk that stops at call k, whose new run saves a checkpoint or fails.
void replace(const fs::path& run, bool saves) {
  try {
    RunFolder folder(run, RunMode::kOverwrite);
    folder.open();
    try {
      begin_run(run, 2);
      if (saves) save(run, 5);
      folder.finish();
    } catch (const Error&) {
      folder.finish();
    }
  } catch (const Error&) {
  }
}

TEST(RunFolderCrashSlow, StoppedAtEveryCallOneOfTheRunsIsWhole) {
  for (const bool saves : {false, true}) {
    int64_t calls = 0;
    {
      const testing::TempDir dir;
      make_old(dir.path() / "run");
      CrashDisk disk(dir.path());
      disk.run_on();
      replace(dir.path() / "run", saves);
      calls = disk.calls();
    }
    ASSERT_GT(calls, 30);
    std::set<std::string> seen;
    for (int64_t k = 0; k <= calls; ++k) {
      for (const auto loss : {PowerLoss::kNone, PowerLoss::kDropUnsynced, PowerLoss::kDropBytes}) {
        SCOPED_TRACE(
            cat("saves ", saves, ", stopped at call ", k, " of ", calls, ", loss ", int(loss)));
        const testing::TempDir dir;
        const fs::path run = dir.path() / "run";
        CrashDisk disk(dir.path());
        disk.run_on();
        make_old(run);
        disk.lose_power(PowerLoss::kNone);  // what there is so far is secured
        disk.stop_at(k);
        replace(run, saves);
        disk.lose_power(loss);
        {
          RunFolder folder(run, RunMode::kResume);
          folder.open();
          const std::string here = seed_of(run);
          const int64_t step = newest_step(run);
          if (here == "old") {
            EXPECT_EQ(step, 20);
          } else if (step != 5) {  // the new run, before its first checkpoint
            EXPECT_EQ(step, -1);
            EXPECT_TRUE(folder.finish());
            EXPECT_EQ(seed_of(run), "old");
            EXPECT_EQ(newest_step(run), 20);
          }
          seen.insert(cat(here, " ", step));
        }
        EXPECT_EQ(read_file(run / "notes.txt", 100), "mine");
        EXPECT_EQ(read_file(run / kCheckpointFolder / "mywork" / "weights.bin", 100), "mine");
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_EQ(seen.count("old 20"), 1u);
    EXPECT_EQ(seen.count("new -1"), 1u);
    EXPECT_EQ(seen.count("new 5"), saves ? 1u : 0u);
  }
}

}  // namespace
}  // namespace tost
