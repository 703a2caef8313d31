// Checkpoints of a run whose optimiser is divided: every process writes its shard of it, and
// process 0 all else. They are as whole as those of one process: only process 0 puts them in
// place.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tost/comm/group.h"
#include "tost/store/checkpoint_store.h"

namespace tost {

struct SharedCheckpoint {
  Checkpoint whole;        // process 0: all but the optimiser
  Checkpoint shard;        // one part; without any where this process has none
  std::string index = {};  // process 0: of the shards
};

// Where it goes, and how often: as BackgroundSaver.
struct SharedPlace {
  CheckpointStore* store = nullptr;  // of process 0
  std::filesystem::path directory;   // the store's, as this process sees it
  std::vector<std::chrono::milliseconds> pauses;
};

// Collective; changes `checkpoint`. A failure of any process is tried again by all after each of
// the pauses, and is a sentence to `tell`; the last one is thrown as Group::together() does. Gives
// the checkpoint's folder.
std::filesystem::path save_together(Group& group, const SharedPlace& place,
                                    SharedCheckpoint& checkpoint, bool best,
                                    const std::function<void(const std::string&)>& tell);

// Collective. Throws a usage Error unless every process sees what process 0 writes into `run`.
void check_shared_folder(Group& group, const std::filesystem::path& run);

}  // namespace tost
