#include "tost/train/shared_save.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tests/testing/crash_disk.h"
#include "tests/testing/errors.h"
#include "tost/base/file.h"
#include "tost/comm/processes_test_util.h"
#include "tost/engine/run_layout.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::in_processes;

// A folder that the processes of a test share.
fs::path common_run() {
  const fs::path run = fs::path(std::getenv("TOST_TEST_STORE")).parent_path() / "run";
  fs::create_directories(run / kCheckpointFolder);
  return run;
}

std::string key_of(int64_t rank) {
  return cat("exp_avg.", rank);
}

SharedCheckpoint shared_at(int64_t step, const Group& group) {
  SharedCheckpoint checkpoint{.whole = {.step = step}, .shard = {.step = step}};
  checkpoint.shard.parts.push_back({optimizer_shard_name(group.rank(), group.world()),
                                    {{key_of(group.rank()), torch::full({50}, double(step))}},
                                    {}});
  checkpoint.whole.parts.push_back({kModelFile, {{"w", torch::full({5}, double(step))}}, {}});
  checkpoint.whole.state = {{"step", step}};
  SafetensorsIndex index;
  for (int64_t rank = 0; rank < group.world(); ++rank) {
    index.shards[optimizer_shard_name(rank, group.world())].insert(key_of(rank));
  }
  checkpoint.index = safetensors_index_text(index, 200 * group.world());
  return checkpoint;
}

struct Saver {
  Saver(Group& processes, std::vector<std::chrono::milliseconds> pauses)
      : group(processes), place{.directory = common_run() / kCheckpointFolder, .pauses = pauses} {
    if (!group.first()) return;
    store.emplace(place.directory, 9);
    place.store = &*store;
  }
  void save(int64_t step) {
    SharedCheckpoint checkpoint = shared_at(step, group);
    save_together(group, place, checkpoint, false,
                  [this](const std::string& message) { messages.push_back(message); });
  }
  // On process 0: the newest is whole. Its step.
  int64_t newest_step() {
    std::vector<std::string> skipped;
    const auto newest = store->load_newest(skipped);
    EXPECT_EQ(skipped.size(), 0u);
    EXPECT_EQ(int64_t(newest->parts.back().tensors.size()), group.world());
    for (const auto& [key, tensor] : newest->parts.back().tensors) {
      EXPECT_TRUE(torch::equal(tensor, torch::full({50}, double(newest->step)))) << key;
    }
    return newest->step;
  }

  Group& group;
  SharedPlace place;
  std::optional<CheckpointStore> store;
  std::vector<std::string> messages;
};

class SaveTogether : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, SaveTogether, ::testing::Values(2, 4));

TEST_P(SaveTogether, IsOneCheckpoint) {
  in_processes({.world = GetParam()}, [](Group& group) {
    Saver saver(group, {});
    for (const int64_t step : {3, 5, 5}) saver.save(step);
    if (!group.first()) return;
    EXPECT_EQ(saver.newest_step(), 5);
    EXPECT_EQ(saver.store->list().size(), 2u);
    EXPECT_EQ(saver.store->clean(), 0);
  });
}

// False where it failed, in one sentence of process 0.
bool save_with_failure(Saver& saver, int64_t failing, int64_t call) {
  std::optional<testing::CrashDisk> disk;
  if (saver.group.rank() == failing) disk.emplace(saver.place.directory).fail_at(call, ENOSPC);
  try {
    saver.save(2);
    return true;
  } catch (const ReportedElsewhere&) {
    EXPECT_FALSE(saver.group.first());
  } catch (const Error& error) {
    EXPECT_TRUE(saver.group.first());
    const std::string whose = failing == 0 ? "" : cat("Rank ", failing, ": Cannot save its part");
    EXPECT_TRUE(testing::mentions(error.what(), whose)) << error.what();
  }
  return false;
}

// Each change that the first or last process makes to the disk fails once. A pointer is written
// when the new checkpoint is in its place.
TEST_P(SaveTogether, AFailureAnywhereLeavesAWholeCheckpointAndOneSentence) {
  in_processes({.world = GetParam()}, [](Group& group) {
    Saver saver(group, {});
    saver.save(1);
    for (const int64_t failing : {int64_t{0}, group.world() - 1}) {
      int64_t call = 0;
      for (bool saved = false; !saved; ++call) {
        saved = save_with_failure(saver, failing, call);
        ASSERT_EQ(group.any(saved), saved);
        if (group.first()) {
          EXPECT_EQ(saver.store->clean(), 0) << call;
          const int64_t step = saver.newest_step();
          EXPECT_TRUE(step == 2 || !saved);
          EXPECT_TRUE(step == 1 || failing == 0 || saved);
          if (step == 2) fs::remove_all(saver.store->list()[0]);
        }
        group.any(false);
      }
      EXPECT_GT(call, group.rank() != failing ? 0 : failing == 0 ? 15 : 5);
    }
  });
}

TEST_P(SaveTogether, AFailureThatPassesIsTriedAgain) {
  in_processes({.world = GetParam()}, [](Group& group) {
    Saver saver(group, {std::chrono::milliseconds(1), std::chrono::milliseconds(1)});
    {
      std::optional<testing::CrashDisk> disk;
      if (group.rank() == 1) disk.emplace(saver.place.directory).fail_at(1, ENOSPC);
      saver.save(4);
    }
    if (!group.first()) return;
    EXPECT_EQ(saver.newest_step(), 4);
    ASSERT_EQ(saver.messages.size(), 1u);
    EXPECT_TRUE(testing::mentions(saver.messages[0], "Rank 1")) << saver.messages[0];
    EXPECT_TRUE(testing::mentions(saver.messages[0], "Trying again")) << saver.messages[0];
  });
}

TEST(SharedFolder, AllSeeItOrNoneStarts) {
  in_processes({.world = 2}, [](Group& group) {
    const fs::path run = common_run(), other = run / "other";
    check_shared_folder(group, run);
    if (!group.first()) {  // with a file of the same name, from another start
      fs::create_directories(other);
      write_file_atomic(other / ".shared", "1 2\n");
    }
    const auto refused = [&] { check_shared_folder(group, group.first() ? run : other); };
    if (group.first()) {
      const std::string message = testing::usage_error_of(refused);
      EXPECT_TRUE(testing::mentions(message, "Rank 1: '")) << message;
      EXPECT_TRUE(testing::mentions(message, "all machines share")) << message;
      EXPECT_FALSE(fs::exists(run / ".shared"));
    } else {
      EXPECT_THROW(refused(), ReportedElsewhere);
    }
  });
}

}  // namespace
}  // namespace tost
