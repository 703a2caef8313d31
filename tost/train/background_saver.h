// Writes checkpoints on a separate thread while training continues.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tost/store/checkpoint_store.h"

namespace tost {

// One save at a time: the next one waits for it, so that there are never two half-written folders,
// nor more than one copy of the run's state. For use from one thread; `store` outlives the saver,
// and nothing else may save to it meanwhile.
class BackgroundSaver {
 public:
  // A failed save is tried again after each of the pauses, because network disks and quotas have
  // temporary failures. The last failure counts.
  BackgroundSaver(CheckpointStore& store, std::vector<std::chrono::milliseconds> pauses);
  // Waits for the save under way; its failure is lost.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Copies the tensors of `checkpoint`, so that they may change as soon as this returns, and
  // begins; waits for the save before. If that save failed, its failure becomes a message, and this
  // checkpoint is written at once on the caller's thread: throws if this fails too. A checkpoint
  // whose copy does not fit in memory is also written at once.
  void save(const Checkpoint& checkpoint, bool best);
  // The same on this thread and without a copy in any case.
  void save_now(const Checkpoint& checkpoint, bool best);

  // Waits for the save under way. Throws its error.
  void wait();

  // Folders finished since the last call, and a sentence for each failed attempt, of the saves that
  // save() or wait() has waited for.
  struct Report {
    std::vector<std::filesystem::path> finished;
    std::vector<std::string> messages;
  };
  Report take_report();

 private:
  void run(const Checkpoint& checkpoint, bool best);
  void run_here(const Checkpoint& checkpoint, bool best);
  bool failed_before();  // waits
  void join();
  void collect();  // takes the thread's report

  CheckpointStore& store_;
  std::vector<std::chrono::milliseconds> pauses_;
  std::thread thread_;
  Report running_;  // used by the thread until it is joined
  std::exception_ptr failure_;
  Report report_;
};

// 0.5 s, 2 s, 8 s, and 10 s from then on.
std::vector<std::chrono::milliseconds> retry_pauses(int64_t retries);

}  // namespace tost
