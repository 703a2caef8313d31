// Saves checkpoints of a run with a divided optimiser: every process writes a shard, and process 0
// all other files. A checkpoint appears complete or not at all, because only process 0 renames the
// folder.
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

// `store` and `pauses` are those of BackgroundSaver.
struct SharedPlace {
  CheckpointStore* store = nullptr;  // of process 0
  std::filesystem::path directory;   // the store's, as this process sees it
  std::vector<std::chrono::milliseconds> pauses;
};

// All processes must call save(), which changes `checkpoint` and returns the folder. After a
// failure of any process, `report` gets a sentence, and all try again after a pause. Throws the
// last failure as Group::together() does.
std::filesystem::path save_together(Group& group, const SharedPlace& place,
                                    SharedCheckpoint& checkpoint, bool best,
                                    const std::function<void(const std::string&)>& report);

// Collective. Throws a usage Error if a process cannot read a file of process 0 in `run`.
void check_shared_folder(Group& group, const std::filesystem::path& run);

// ---- Checks that all processes of a run have the same settings, data, build and torch. ----

// The values that must be equal on all processes, by their names in messages, with causes before
// effects. Reads the first batch, so the task's next call must be start_epoch(). `config` and
// `model` are texts of JSON objects.
nlohmann::ordered_json facts_of(const std::string& build, const std::string& config,
                                const std::string& model, TrainTask& task);

// Throws a usage Error on all processes if the facts of a process differ from those of process 0.
// The Error names the process and the first difference.
void check_same(Group& group, const nlohmann::ordered_json& facts);

}  // namespace tost
