#include "tost/serve/session_store.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/io/safe_text.h"
#include "tost/serve/fields.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using WallClock = std::chrono::system_clock;  // a restart does not reset it

constexpr char kSuffix[] = ".safetensors";
constexpr size_t kIdLength = 37;  // kind, '-' and 128 bits
constexpr int64_t kMaxFileBytes = int64_t{1} << 32;
constexpr int64_t kTrimBytes = 16 << 20;

// Makes an id of `kind` and an unpredictable random part.
std::string new_id(const std::string& kind) {
  std::random_device system;
  std::string id = kind + "-";
  for (int i = 0; i < 4; ++i) id += format_text("%08x", unsigned(system()));
  return id;
}

// Whether a name has the form of an id; only such a name may become part of a path.
bool is_id(const std::string& id) {
  if (id.size() != kIdLength || !(starts_with(id, "sess-") || starts_with(id, "resp-"))) {
    return false;
  }
  return std::all_of(id.begin() + 5, id.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The id in the name of a session's file; nothing for other files.
std::optional<std::string> session_of(const fs::path& file) {
  const std::string id = file.stem().string();
  if (file.extension() != kSuffix || !is_id(id)) return std::nullopt;
  return id;
}

// Runs `work`, and turns an Error of the disk into an ApiError that blames the server.
template <class Work>
auto on_disk(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw ApiError(500, error.what(), "session", "session_storage");
  }
}

// Counts failures, so that one failed save does not prevent the others.
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

SessionStore::SessionStore(const SessionLimits& limits) : limits_(limits) {
  if (limits.folder.empty()) return;
  make_directories(limits.folder);
  lock_.emplace(limits.folder, "--sessions");
  adopt_folder();
}

// Loads the sessions of the folder, in which each subfolder is a model and each file a session.
void SessionStore::adopt_folder() {
  for (const auto& model : folder_entries(limits_.folder)) {
    if (!model.folder || model.link) continue;
    for (const auto& file : folder_entries(model.path)) {
      if (!file.file) continue;
      if (session_of(target_of_leftover(file.path))) {
        discard(file.path);
        continue;
      }
      const auto id = session_of(file.path);
      if (!id) continue;
      Entry entry;
      entry.info = {.id = *id,
                    .model = model.path.filename().string(),
                    .bytes = file_bytes(file.path),
                    .saved = true};
      struct stat file_info {};
      const bool known = ::stat(file.path.c_str(), &file_info) == 0;
      entry.used = known ? WallClock::from_time_t(file_info.st_mtime) : WallClock::now();
      entry.info.created = WallClock::to_time_t(entry.used);
      entries_.emplace(*id, std::move(entry));
    }
  }
}

fs::path SessionStore::file_of(const SessionInfo& info) const {
  return limits_.folder / info.model / (info.id + kSuffix);
}

SessionStore::Entry& SessionStore::entry(const std::string& id, const std::string& model) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.reserved > 0) {
    throw ApiError(404, cat("There is no session ", shown(id, 60), "."), "session",
                   "session_not_found");
  }
  const auto& own = found->second.info.model;
  if (!model.empty() && model != own) {
    throw ApiError(400, cat("Session '", id, "' is of model '", own, "', not of '", model, "'."),
                   "session");
  }
  return found->second;
}

void SessionStore::load(Entry& e) {
  e.used = WallClock::now();
  if (e.bytes != nullptr) return;
  e.bytes = on_disk([&] {
    return std::make_shared<const std::string>(read_file(file_of(e.info), kMaxFileBytes));
  });
  e.info.in_memory = true;
  e.info.bytes = int64_t(e.bytes->size());
  bytes_ += e.info.bytes;
  while (bytes_ > limits_.bytes && spill_oldest(&e)) {
  }
}

void SessionStore::save(Entry& e) {
  if (e.info.saved || e.bytes == nullptr) return;
  on_disk([&] {
    const auto file = file_of(e.info);
    make_directories(file.parent_path());
    write_file_atomic(file, *e.bytes);
  });
  e.info.saved = true;
}

void SessionStore::drop(Entry& e) {
  if (e.bytes == nullptr) return;
  bytes_ -= int64_t(e.bytes->size());
  e.bytes = nullptr;
  e.info.in_memory = false;
}

void SessionStore::erase(Entries::iterator at) {
  Entry& e = at->second;
  bytes_ -= e.reserved;
  drop(e);
  if (lock_ && e.reserved == 0) discard(file_of(e.info));
  entries_.erase(at);
}

SessionInfo SessionStore::info_of(const Entry& e) const {
  auto info = e.info;
  if (limits_.age_s > 0) info.expires_at = WallClock::to_time_t(e.used) + int64_t(limits_.age_s);
  return info;
}

bool SessionStore::idle(const Entry& e, double seconds) const {
  return !e.info.busy && WallClock::now() - e.used >= std::chrono::duration<double>(seconds);
}

// The least recently used session that may be spilled, or stored answer that may be removed.
SessionStore::Entries::iterator SessionStore::oldest(bool spill) {
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    const auto& e = at->second;
    const bool removable = spill ? e.bytes != nullptr : starts_with(e.info.id, "resp-");
    if (!removable || e.info.busy) continue;
    if (oldest == entries_.end() || e.used < oldest->second.used) oldest = at;
  }
  return oldest;
}

// Spills the least recently used session except `but`; returns false if there is none.
bool SessionStore::spill_oldest(const Entry* but) {
  const auto found = lock_ ? oldest(true) : entries_.end();
  if (found == entries_.end() || &found->second == but) return false;
  save(found->second);
  drop(found->second);
  return true;
}

// Throws before any eviction if evictions cannot make enough room.
void SessionStore::make_room(int64_t bytes) {
  const auto many = [this] { return int64_t(entries_.size()) >= limits_.count; };
  const auto full = [&] { return many() || bytes_ + bytes > limits_.bytes; };
  if (!full()) return;
  int64_t freed = 0, responses = 0;
  for (const auto& [id, e] : entries_) {
    if (e.info.busy) continue;
    const bool response = starts_with(id, "resp-");
    responses += response;
    if ((lock_ || response) && e.bytes != nullptr) freed += e.info.bytes;
  }
  if ((many() && responses == 0) || bytes_ - freed + bytes > limits_.bytes) {
    throw ApiError(429,
                   cat("The server holds ", entries_.size(), " sessions of ", bytes_,
                       " bytes, as many as it may; remove some."),
                   {}, "sessions_full");
  }
  while (full()) {
    if (!many() && spill_oldest(nullptr)) continue;
    erase(oldest(false));
  }
}

void SessionStore::insert(const std::string& id, Entry e) {
  e.info.id = id;
  e.info.created = std::time(nullptr);
  e.info.saved = false;
  e.info.busy = e.reserved > 0;
  e.info.in_memory = e.bytes != nullptr;
  e.info.bytes = e.bytes != nullptr ? int64_t(e.bytes->size()) : e.reserved;
  e.used = WallClock::now();
  make_room(e.info.bytes);
  bytes_ += e.info.bytes;
  entries_.emplace(id, std::move(e));
}

std::string SessionStore::reserve(const std::string& kind, const std::string& model,
                                  int64_t bytes) {
  auto id = new_id(kind);
  Entry e;
  e.info.model = model;
  e.reserved = std::max<int64_t>(1, bytes);
  const Lock lock(mutex_);
  insert(id, std::move(e));
  return id;
}

std::string SessionStore::add(const std::string& kind, const std::string& model, int64_t position,
                              std::string bytes) {
  auto id = reserve(kind, model, int64_t(bytes.size()));
  give_back(id, position, std::move(bytes));
  return id;
}

SessionBytes SessionStore::read(const std::string& id, const std::string& model) {
  const Lock lock(mutex_);
  Entry& e = entry(id, model);
  load(e);
  return e.bytes;
}

std::string SessionStore::fork(const std::string& id) {
  const Lock lock(mutex_);
  Entry& e = entry(id);
  load(e);
  auto fresh = new_id("sess");
  insert(fresh, Entry(e));
  return fresh;
}

SessionInfo SessionStore::info(const std::string& id) {
  const Lock lock(mutex_);
  return info_of(entry(id));
}

std::pair<std::vector<SessionInfo>, bool> SessionStore::list(const std::string& after,
                                                             int64_t limit) const {
  std::vector<SessionInfo> page;
  const Lock lock(mutex_);
  auto at = entries_.upper_bound(after);
  for (; at != entries_.end() && int64_t(page.size()) < limit; ++at) {
    if (at->second.reserved == 0) page.push_back(info_of(at->second));
  }
  return {std::move(page), at != entries_.end()};
}

void SessionStore::remove(const std::string& id) {
  const Lock lock(mutex_);
  Entry& e = entry(id);
  if (e.info.busy) throw ApiError(409, cat("Session '", id, "' is being continued."), "session");
  erase(entries_.find(id));
}

void SessionStore::save(const std::string& id) {
  const Lock lock(mutex_);
  Entry& e = entry(id);
  if (!lock_) {
    fail_request("The server keeps no sessions on disk; start it with --sessions FOLDER.");
  }
  save(e);
}

SessionBytes SessionStore::take(const std::string& id, const std::string& model) {
  const Lock lock(mutex_);
  Entry& e = entry(id, model);
  if (e.info.busy) {
    throw ApiError(409, cat("Session '", id, "' is being continued; wait, or fork it."), "session",
                   "session_busy");
  }
  load(e);
  e.info.busy = true;
  return e.bytes;
}

void SessionStore::give_back(const std::string& id, int64_t position, std::string bytes) {
  bytes.shrink_to_fit();
  auto fresh = std::make_shared<const std::string>(std::move(bytes));
  const Lock lock(mutex_);
  Entry& e = entries_.at(id);
  drop(e);
  bytes_ -= std::exchange(e.reserved, 0);
  e.bytes = std::move(fresh);
  e.info.bytes = int64_t(e.bytes->size());
  e.info.position = position;
  e.info.in_memory = true;
  e.info.saved = e.info.busy = false;
  e.used = WallClock::now();
  bytes_ += e.info.bytes;
}

void SessionStore::give_back(const std::string& id) {
  const Lock lock(mutex_);
  const auto at = entries_.find(id);
  if (at->second.reserved > 0) return erase(at);
  at->second.info.busy = false;
  at->second.used = WallClock::now();
}

int64_t SessionStore::bytes_in_memory() const {
  const Lock lock(mutex_);
  return bytes_;
}

int64_t SessionStore::count() const {
  const Lock lock(mutex_);
  return int64_t(entries_.size());
}

void SessionStore::save_all() {
  const Lock lock(mutex_);
  if (!lock_) return;
  Failures failures;
  for (auto& [id, e] : entries_) {
    failures.run([&] { save(e); });
  }
  failures.report();
}

// Trims the allocator, which keeps the memory of freed sessions until then.
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
  // A session may have grown until it was returned, so the sum may exceed the limit.
  for (bool spilled = true; spilled;) {
    spilled = false;
    const Lock lock(mutex_);
    if (bytes_ > limits_.bytes) failures.run([&] { spilled = spill_oldest(nullptr); });
  }
  failures.report();
}

}  // namespace tost
