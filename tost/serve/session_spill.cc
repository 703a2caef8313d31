// Saves, spills and removes idle sessions.
#include <malloc.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/serve/session_store.h"

namespace tost {
namespace {

constexpr int64_t kTrimBytes = 16 << 20;

// Counts failures instead of throwing, so that one failed save does not prevent other saves.
class Failures {
 public:
  template <class Work>
  void run(const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      if (count_++ == 0) first_ = error.what();
    }
  }
  void report() const {
    if (count_ == 0) return;
    fail_data(count_, count_ == 1 ? " session" : " sessions", " could not be saved: ", first_);
  }

 private:
  int64_t count_ = 0;
  std::string first_;
};

}  // namespace

void SessionStore::save_all() {
  const Lock lock(mutex_);
  if (!lock_) return;
  Failures failures;
  for (auto& [id, e] : entries_) {
    failures.run([&] { save(e); });
  }
  failures.report();
}

// Returns the memory of freed sessions from the allocator to the system.
void SessionStore::trim() {
  {
    const Lock lock(mutex_);
    most_ = std::max(most_, bytes_);
    if (most_ - bytes_ < kTrimBytes) return;
    most_ = bytes_;
  }
  malloc_trim(0);
}

// Writes one session at a time, so that a request waits for at most one file.
template <class Work>
void SessionStore::each_idle(double seconds, bool in_memory, const Work& work) {
  std::vector<std::string> ids;
  {
    const Lock lock(mutex_);
    for (const auto& [id, e] : entries_) {
      if ((e.bytes != nullptr || !in_memory) && idle(e, seconds)) ids.push_back(id);
    }
  }
  for (const auto& id : ids) {
    const Lock lock(mutex_);
    const auto at = entries_.find(id);
    if (at != entries_.end() && idle(at->second, seconds)) work(at);
  }
}

void SessionStore::spill_idle() {
  trim();
  if (limits_.age_s > 0)
    each_idle(limits_.age_s, false, [this](Entries::iterator at) { erase(at); });
  if (!lock_) return;
  Failures failures;
  each_idle(limits_.idle_s, true, [&](Entries::iterator at) {
    failures.run([&] {
      save(at->second);
      drop(at->second);
    });
  });
  // Spills sessions until the sum is within the limit, because a returned session may have grown.
  for (bool spilled = true; spilled;) {
    spilled = false;
    const Lock lock(mutex_);
    if (bytes_ > limits_.bytes) failures.run([&] { spilled = spill_oldest(nullptr); });
  }
  failures.report();
}

}  // namespace tost
