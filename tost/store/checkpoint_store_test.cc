#include "tost/store/checkpoint_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace checkpoint_store_test {

namespace fs = std::filesystem;

Checkpoint checkpoint_at(int64_t step, int64_t width = 8) {
  const auto filled = [&](double value) { return torch::full({width}, value); };
  Checkpoint checkpoint{.step = step, .parts = {}, .state = {{"step", step}}};
  checkpoint.parts.push_back({kModelFile, {{"w", filled(double(step))}}, {{"format", "pt"}}});
  checkpoint.parts.push_back({kOptimizerFile, {{"exp_avg.w", filled(0.5)}}, {}});
  return checkpoint;
}

std::vector<std::string> names(const CheckpointStore& store) {
  std::vector<std::string> names;
  for (const fs::path& folder : store.list()) names.push_back(folder.filename().string());
  return names;
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

int64_t newest_step(const CheckpointStore& store, std::vector<std::string>* messages = nullptr) {
  std::vector<std::string> ignored;
  const auto checkpoint = store.load_newest(messages ? *messages : ignored);
  return checkpoint ? checkpoint->step : -1;
}

void flip_byte(const fs::path& path, size_t at) {
  std::string bytes = read_file(path, 1 << 20);
  bytes.at(at) = char(bytes.at(at) ^ 1);
  OutputFile(path).write(bytes);
}

TEST(CheckpointStore, RoundTrip) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path() / "checkpoints", 2);
  EXPECT_EQ(newest_step(store), -1);
  const fs::path folder = store.save(checkpoint_at(7), true);
  EXPECT_EQ(folder.filename(), "step-000000007");
  std::vector<std::string> messages;
  const auto loaded = store.load_newest(messages);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(messages.empty());
  EXPECT_EQ(loaded->state, nlohmann::json({{"step", 7}}));
  EXPECT_TRUE(torch::equal(loaded->parts.at(0).tensors.at("w"), torch::full({8}, 7.0)));
  EXPECT_EQ(loaded->parts.at(0).metadata.at("format"), "pt");
  EXPECT_EQ(follow_pointer(store.directory(), kLatestPointer), folder);
  EXPECT_EQ(follow_pointer(store.directory(), kBestPointer), folder);
}

TEST(CheckpointStore, KeepsTheLastAndTheBest) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  for (int64_t step = 1; step <= 5; ++step) store.save(checkpoint_at(step), step == 2);
  EXPECT_EQ(names(store),
            (std::vector<std::string>{"step-000000005", "step-000000004", "step-000000002"}));
  store.save(checkpoint_at(6), true);
  EXPECT_EQ(names(store), (std::vector<std::string>{"step-000000006", "step-000000005"}));
}

TEST(CheckpointStore, ReplacesTheSameStep) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  store.save(checkpoint_at(3), false);
  Checkpoint again = checkpoint_at(3);
  again.state["evaluated_step"] = 3;
  store.save(again, true);
  std::vector<std::string> messages;
  EXPECT_EQ(store.load_newest(messages)->state["evaluated_step"], 3);
  EXPECT_EQ(entries(dir.path()), (std::vector<std::string>{"best", "latest", "step-000000003"}));
}

TEST(CheckpointStore, FallsBackForEveryDamage) {
  for (const char* file : {kModelFile, kOptimizerFile, kStateFile, kManifestFile}) {
    for (const char* damage : {"flip", "truncate", "remove"}) {
      const testing::TempDir dir;
      CheckpointStore store(dir.path(), 3);
      store.save(checkpoint_at(1), false);
      const fs::path path = store.save(checkpoint_at(2), true) / file;
      if (*damage == 'f') flip_byte(path, fs::file_size(path) / 2);
      if (*damage == 't') fs::resize_file(path, fs::file_size(path) - 1);
      if (*damage == 'r') fs::remove(path);
      // A flipped bit inside the manifest's spaces changes nothing that matters; its JSON may stay
      // equal.
      if (file == kManifestFile && *damage != 'r') OutputFile(path).write("{\"files\": {}}");
      std::vector<std::string> messages;
      EXPECT_EQ(newest_step(store, &messages), 1) << file << " " << damage;
      ASSERT_EQ(messages.size(), 1u);
      EXPECT_NE(messages[0].find("step-000000002"), std::string::npos) << messages[0];
    }
  }
}

TEST(CheckpointStore, AllDamagedIsAnError) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 3);
  std::vector<std::string> messages;
  const auto refusal = [&] { return testing::data_error_of([&] { store.load_newest(messages); }); };
  fs::remove(store.save(checkpoint_at(1), false) / kModelFile);
  EXPECT_TRUE(testing::mentions(refusal(), "The only checkpoint in")) << refusal();
  fs::remove(store.save(checkpoint_at(2), false) / kModelFile);
  fs::remove(store.save(checkpoint_at(3), false) / kModelFile);
  const std::string message = refusal();
  EXPECT_TRUE(testing::mentions(message, "All 3 checkpoints")) << message;
  EXPECT_TRUE(testing::mentions(message, "step-000000003")) << message;
  EXPECT_FALSE(testing::mentions(message, "step-000000001")) << message;
}

TEST(CheckpointStore, ClearsNothingOfOthers) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 3);
  for (const char* name : {"notes.tmp", "notes.7-0.tmp", "mine.partial", "step-5.stale"}) {
    OutputFile(dir.path() / name).write("mine");
  }
  EXPECT_EQ(store.clean(), 0);
  EXPECT_EQ(entries(dir.path()), (std::vector<std::string>{"mine.partial", "notes.7-0.tmp",
                                                           "notes.tmp", "step-5.stale"}));
}

TEST(CheckpointStore, WritesNothingWithoutItsFolder) {
  const testing::TempDir dir;
  const fs::path run = dir.path() / "run", away = dir.path() / "away";
  CheckpointStore store(run / kCheckpointFolder, 3);
  store.save(checkpoint_at(1), false);
  fs::rename(run, away);
  const auto refusal = [&] {
    return testing::data_error_of([&] { store.save(checkpoint_at(2), false); });
  };
  EXPECT_TRUE(testing::mentions(refusal(), "run' was removed or moved away")) << refusal();
  EXPECT_FALSE(fs::exists(run));
  fs::create_directory(run);
  EXPECT_TRUE(testing::mentions(refusal(), "run' was replaced")) << refusal();
  EXPECT_TRUE(fs::is_empty(run));
}

// Of two processes.
fs::path save_in_shards(CheckpointStore& store, int64_t step) {
  Checkpoint checkpoint = checkpoint_at(step);
  checkpoint.parts.pop_back();
  const fs::path partial = store.open(step);
  SafetensorsIndex index;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string file = optimizer_shard_name(rank, 2), key = cat("exp_avg.", rank);
    index.shards[file].insert(key);
    const auto values = torch::full({8}, double(step + rank));
    checkpoint.written[file] =
        write_checkpoint_part(partial, {.step = step, .parts = {{file, {{key, values}}, {}}}});
  }
  write_file_atomic(partial / kOptimizerIndexFile, safetensors_index_text(index, 64));
  return store.save(checkpoint, true);
}

TEST(ShardedCheckpoint, RoundTrip) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 2);
  const fs::path folder = save_in_shards(store, 7);
  std::vector<std::string> messages;
  const auto loaded = store.load_newest(messages);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(messages.empty());
  EXPECT_EQ(loaded->parts.back().file, kOptimizerFile);
  const auto& tensors = loaded->parts.back().tensors;
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_TRUE(torch::equal(tensors.at("exp_avg.1"), torch::full({8}, 8.0)));
  EXPECT_EQ(entries(folder),
            (std::vector<std::string>{"manifest.json", "model.safetensors",
                                      "optimizer-00001-of-00002.safetensors",
                                      "optimizer-00002-of-00002.safetensors",
                                      "optimizer.safetensors.index.json", "state.json"}));
}

// What of the newest one is damaged, and what the message then says.
TEST(ShardedCheckpoint, FallsBackForEveryDamage) {
  const std::string second = optimizer_shard_name(1, 2);
  const auto write = [](const fs::path& path, const std::string& text) {
    OutputFile(path).write(text);
  };
  using Damage = std::function<void(const fs::path& newest, const fs::path& older)>;
  const std::vector<std::pair<Damage, std::string>> damages{
      {[&](auto& newest, auto&) { fs::remove(newest / second); }, "is missing"},
      {[&](auto& newest, auto&) { fs::resize_file(newest / second, 40); }, "is damaged"},
      {[&](auto& newest, auto&) { flip_byte(newest / second, 100); }, "is damaged"},
      {[&](auto& newest, auto& older) { write(newest / second, read_file(older / second, 9999)); },
       "is damaged"},
      {[&](auto& newest, auto&) { fs::remove(newest / kOptimizerIndexFile); }, "is missing"},
      {[&](auto& newest, auto&) {  // without the shard in the manifest
         nlohmann::json manifest = nlohmann::json::parse(read_file(newest / kManifestFile, 9999));
         manifest["files"].erase(second);
         write(newest / kManifestFile, manifest.dump());
       },
       "names the shard"},
  };
  for (const auto& [damage, part] : damages) {
    const testing::TempDir dir;
    CheckpointStore store(dir.path(), 3);
    const fs::path older = save_in_shards(store, 1);
    damage(save_in_shards(store, 2), older);
    std::vector<std::string> messages;
    EXPECT_EQ(newest_step(store, &messages), 1) << part;
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_TRUE(testing::mentions(messages[0], part)) << messages[0];
  }
}

TEST(ShardedCheckpoint, WhatAnotherProcessWroteMustBeThere) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 3);
  save_in_shards(store, 1);
  for (const int64_t bytes : {3, 4}) {
    Checkpoint checkpoint = checkpoint_at(2);
    const fs::path partial = store.open(2);
    checkpoint.written["optimizer-00001-of-00001.safetensors"] = {3, "00000000"};
    if (bytes == 4) write_file_atomic(partial / "optimizer-00001-of-00001.safetensors", "four");
    const std::string message = testing::data_error_of([&] { store.save(checkpoint, false); });
    EXPECT_TRUE(testing::mentions(message, "all processes share")) << message;
    EXPECT_EQ(names(store), std::vector<std::string>{"step-000000001"});
  }
}

// What a process killed at each stage of save() leaves.
TEST(CheckpointStore, CleansWhatAKilledSaveLeft) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 3);
  const fs::path first = store.save(checkpoint_at(1), true);
  const fs::path second = store.save(checkpoint_at(2), false);
  fs::create_directory(dir.path() / "step-000000003.partial");
  OutputFile(dir.path() / "step-000000003.partial" / kModelFile).write("half");
  OutputFile(dir.path() / "latest.7-0.tmp").write("step-0");
  fs::rename(second,
             dir.path() / "step-000000002.stale");  // moved aside, the new one not yet in place
  EXPECT_EQ(newest_step(store), 1);
  EXPECT_EQ(store.clean(), 3);
  EXPECT_EQ(newest_step(store), 2);
  EXPECT_EQ(entries(dir.path()),
            (std::vector<std::string>{"best", "latest", "step-000000001", "step-000000002"}));
  fs::create_directory(dir.path() /
                       "step-000000002.stale");  // replaced, the old one not yet removed
  EXPECT_EQ(store.clean(), 1);
  EXPECT_EQ(newest_step(store), 2);
}

// No file of this process may grow beyond the limit: what a full disk does to a write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(CheckpointStore, FailedWriteLeavesTheOldOnesAndNoTrace) {
  const testing::TempDir dir;
  CheckpointStore store(dir.path(), 3);
  store.save(checkpoint_at(1), true);
  const auto before = entries(dir.path());
  for (const rlim_t bytes : {0, 100, 3000}) {
    const FileSizeLimit limit(bytes);
    try {
      store.save(checkpoint_at(2, 4096), true);
      ADD_FAILURE() << "a file of 16 KiB cannot have been written";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find("32.0 KiB"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(entries(dir.path()), before);
  EXPECT_EQ(newest_step(store), 1);
  EXPECT_EQ(follow_pointer(dir.path(), kBestPointer).filename(), "step-000000001");
}

}  // namespace checkpoint_store_test
}  // namespace tost
