// Writes checkpoints on a separate thread while training continues.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tost/store/checkpoint_store.h"

namespace tost {

// Runs one save at a time, so that there are never two partial folders or two copies of the run's
// state. Must be used from one thread; `store` must outlive the saver and have no other writer.
class BackgroundSaver {
 public:
  // Repeats a failed save after each of `pauses`, because failures of network disks can be
  // temporary; reports the last failure.
  BackgroundSaver(CheckpointStore& store, std::vector<std::chrono::milliseconds> pauses);
  // The destructor waits for the running save, and ignores a failure.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the previous save, copies the tensors of `checkpoint`, and begins to save the copy.
  // Saves on the caller's thread, and throws on failure, if the previous save failed or the copy
  // does not fit in memory.
  void save(const Checkpoint& checkpoint, bool best);
  // Saves on the caller's thread, without a copy.
  void save_now(const Checkpoint& checkpoint, bool best);

  // Waits for the running save, and throws the error of a failed one.
  void wait();

  // The folders saved since the last call, and a sentence for each failed attempt. Includes only
  // saves for which save() or wait() has waited.
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

// `retries` pauses: 0.5 s, 2 s, 8 s, and then 10 s each.
std::vector<std::chrono::milliseconds> retry_pauses(int64_t retries);

}  // namespace tost
