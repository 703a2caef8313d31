// Saves checkpoints of a run whose optimiser is divided: every process writes its shard, and
// process 0 all else. A checkpoint appears complete or not at all, because only process 0 renames
// its folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/comm/group.h"
#include "tost/store/checkpoint_store.h"
#include "tost/train/train_task.h"

namespace tost {

struct SharedCheckpoint {
  Checkpoint whole;        // process 0: all but the optimiser
  Checkpoint shard;        // one part; without any where this process has none
  std::string index = {};  // process 0: of the shards
};

// The store, and the pauses between attempts, as in BackgroundSaver.
struct SharedPlace {
  CheckpointStore* store = nullptr;  // of process 0
  std::filesystem::path directory;   // the store's, as this process sees it
  std::vector<std::chrono::milliseconds> pauses;
};

// Collective; changes `checkpoint` and returns its folder. After a failure of any process, `report`
// gets a sentence, and all try again after each of the pauses. The last failure is thrown as by
// Group::together().
std::filesystem::path save_together(Group& group, const SharedPlace& place,
                                    SharedCheckpoint& checkpoint, bool best,
                                    const std::function<void(const std::string&)>& report);

// Collective. Throws a usage Error unless every process can read what process 0 writes into `run`.
void check_shared_folder(Group& group, const std::filesystem::path& run);

// ---- Checks that all processes of a run have the same settings, data, build and torch. ----

// The values that must be equal, under keys that messages use; causes come before their effects.
// Reads the first batch, so the task's next call must be start_epoch(). `config` and `model` are
// texts of JSON objects.
nlohmann::ordered_json facts_of(const std::string& build, const std::string& config,
                                const std::string& model, TrainTask& task);

// Throws on all processes a usage Error that names a process whose facts differ from those of
// process 0, and the first difference.
void check_same(Group& group, const nlohmann::ordered_json& facts);

}  // namespace tost
