#include "tost/train/background_saver.h"

#include <algorithm>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/parallel.h"

namespace tost {
namespace {

Checkpoint copy_of(const Checkpoint& checkpoint) {
  Checkpoint copy = checkpoint;
  for (CheckpointPart& part : copy.parts) {
    for (auto& [name, tensor] : part.tensors) tensor = tensor.detach().clone();
  }
  return copy;
}

}  // namespace

BackgroundSaver::BackgroundSaver(CheckpointStore& store,
                                 std::vector<std::chrono::milliseconds> pauses)
    : store_(store), pauses_(std::move(pauses)) {}

BackgroundSaver::~BackgroundSaver() {
  join();
}

void BackgroundSaver::join() {
  if (!thread_.joinable()) return;
  thread_.join();
  collect();
}

void BackgroundSaver::collect() {
  const Report done = std::exchange(running_, {});
  report_.finished.insert(report_.finished.end(), done.finished.begin(), done.finished.end());
  report_.messages.insert(report_.messages.end(), done.messages.begin(), done.messages.end());
}

void BackgroundSaver::save(const Checkpoint& checkpoint, bool best) {
  if (failed_before()) return run_here(checkpoint, best);
  try {
    thread_ = start_thread([this, best, copy = copy_of(checkpoint)] { run(copy, best); });
  } catch (const std::exception&) {  // no thread or no memory for the copy is to be had: then here
    run_here(checkpoint, best);
  }
}

void BackgroundSaver::save_now(const Checkpoint& checkpoint, bool best) {
  failed_before();
  run_here(checkpoint, best);
}

bool BackgroundSaver::failed_before() {
  try {
    wait();
    return false;
  } catch (const std::exception& error) {
    report_.messages.push_back(error.what());
    return true;
  }
}

void BackgroundSaver::run_here(const Checkpoint& checkpoint, bool best) {
  run(checkpoint, best);
  collect();
  wait();
}

void BackgroundSaver::wait() {
  join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BackgroundSaver::run(const Checkpoint& checkpoint, bool best) {
  for (size_t attempt = 0;; ++attempt) {
    try {
      running_.finished.push_back(store_.save(checkpoint, best));
      return;
    } catch (const std::exception& error) {
      if (attempt == pauses_.size()) {
        failure_ = std::current_exception();
        return;
      }
      running_.messages.push_back(cat(error.what(), " Trying again."));
      std::this_thread::sleep_for(pauses_[attempt]);
    }
  }
}

BackgroundSaver::Report BackgroundSaver::take_report() {
  return std::exchange(report_, {});
}

std::vector<std::chrono::milliseconds> retry_pauses(int64_t retries) {
  std::vector<std::chrono::milliseconds> pauses;
  constexpr std::chrono::milliseconds kLongest(10'000);
  for (std::chrono::milliseconds pause(500); int64_t(pauses.size()) < retries; pause *= 4) {
    pauses.push_back(pause = std::min(pause, kLongest));
  }
  return pauses;
}

}  // namespace tost
