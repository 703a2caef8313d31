// Checkpoints of a run whose optimiser is divided: every process writes its shard of it, and
// process 0 all else. They are as whole as those of one process: only process 0 puts them in
// place.
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

// The store and the pauses, as in BackgroundSaver.
struct SharedPlace {
  CheckpointStore* store = nullptr;  // of process 0
  std::filesystem::path directory;   // the store's, as this process sees it
  std::vector<std::chrono::milliseconds> pauses;
};

// Collective; changes `checkpoint`. After a failure of any process, all try again after each of the
// pauses, and `report` gets a sentence. The last failure is thrown as by Group::together(). Gives
// the checkpoint's folder.
std::filesystem::path save_together(Group& group, const SharedPlace& place,
                                    SharedCheckpoint& checkpoint, bool best,
                                    const std::function<void(const std::string&)>& report);

// Collective. Throws a usage Error unless every process sees what process 0 writes into `run`.
void check_shared_folder(Group& group, const std::filesystem::path& run);

// ---- Checks that all processes of a run have the same settings, data, build and torch. ----

// The values that must be equal, with words for a message as keys; causes come before their
// effects. Reads the first batch, so that the task's next call is start_epoch(). `config` and
// `model` are texts of JSON objects.
nlohmann::ordered_json facts_of(const std::string& build, const std::string& config,
                                const std::string& model, TrainTask& task);

// Throws on all processes where one of them has other facts than process 0: a usage Error that
// names it and the first difference.
void check_same(Group& group, const nlohmann::ordered_json& facts);

}  // namespace tost
