#include "tost/serve/session_store.h"

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <random>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/io/safe_text.h"
#include "tost/serve/api_error.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kSuffix[] = ".safetensors";
constexpr size_t kIdLength = 37;  // kind, '-' and 128 bits
constexpr int64_t kMostFileBytes = int64_t{1} << 32;
constexpr int64_t kTrimBytes = 16 << 20;

// `kind` and what cannot be guessed.
std::string new_id(const std::string& kind) {
  std::random_device system;
  std::string id = kind + "-";
  for (int i = 0; i < 4; ++i) id += format_text("%08x", unsigned(system()));
  return id;
}

// Whatever a client calls a session becomes part of a path only if it has the form of an id.
bool is_id(const std::string& id) {
  if (id.size() != kIdLength || !(starts_with(id, "sess-") || starts_with(id, "resp-"))) {
    return false;
  }
  return std::all_of(id.begin() + 5, id.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Nothing if the name is not that of a session's file.
std::optional<std::string> session_of(const fs::path& file) {
  const std::string id = file.stem().string();
  if (file.extension() != kSuffix || !is_id(id)) return std::nullopt;
  return id;
}

// A disk that fails is no fault of the client's.
template <class Work>
auto on_disk(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw ApiError(500, error.what(), "session", "session_storage");
  }
}

// What could not be saved does not keep the rest from being saved.
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

// Folders are models, files sessions.
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
                    .created = std::time(nullptr),
                    .saved = true};
      entry.used = Clock::now();
      entries_.emplace(*id, std::move(entry));
    }
  }
}

fs::path SessionStore::file_of(const SessionInfo& info) const {
  return limits_.folder / info.model / (info.id + kSuffix);
}

SessionStore::Entry& SessionStore::entry(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    throw ApiError(404, cat("There is no session ", shown(id, 60), "."), "session",
                   "session_not_found");
  }
  return found->second;
}

SessionStore::Entry& SessionStore::entry_of(const std::string& id, const std::string& model) {
  Entry& e = entry(id);
  if (e.info.model != model) {
    throw ApiError(
        400, cat("Session '", id, "' is of model '", e.info.model, "', not of '", model, "'."),
        "session");
  }
  return e;
}

void SessionStore::load(Entry& e) {
  e.used = Clock::now();
  if (e.bytes != nullptr) return;
  e.bytes = on_disk([&] {
    return std::make_shared<const std::string>(read_file(file_of(e.info), kMostFileBytes));
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

// Of those that may leave memory for the folder, or, as stored answers, for good, the one used
// least recently.
std::map<std::string, SessionStore::Entry>::iterator SessionStore::oldest(bool spill) {
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    const auto& e = at->second;
    const bool may_go = spill ? e.bytes != nullptr : starts_with(e.info.id, "resp-");
    if (!may_go || e.info.busy) continue;
    if (oldest == entries_.end() || e.used < oldest->second.used) oldest = at;
  }
  return oldest;
}

// False where there is none other than `but`.
bool SessionStore::spill_oldest(const Entry* but) {
  const auto found = lock_ ? oldest(true) : entries_.end();
  if (found == entries_.end() || &found->second == but) return false;
  save(found->second);
  drop(found->second);
  return true;
}

void SessionStore::make_room(int64_t bytes) {
  while (bytes_ + bytes > limits_.bytes || int64_t(entries_.size()) >= limits_.count) {
    const bool many = int64_t(entries_.size()) >= limits_.count;
    if (!many && spill_oldest(nullptr)) continue;
    const auto leaving = many || !lock_ ? oldest(false) : entries_.end();
    if (leaving == entries_.end()) {
      throw ApiError(429, cat("The server holds ", entries_.size(), " sessions of ", bytes_,
                              " bytes, as many as it may; remove some."));
    }
    drop(leaving->second);
    if (leaving->second.info.saved) discard(file_of(leaving->second.info));
    entries_.erase(leaving);
  }
}

void SessionStore::insert(const std::string& id, Entry e) {
  e.info.id = id;
  e.info.created = std::time(nullptr);
  e.info.saved = e.info.busy = false;
  e.info.in_memory = true;
  e.info.bytes = int64_t(e.bytes->size());
  e.used = Clock::now();
  make_room(e.info.bytes);
  bytes_ += e.info.bytes;
  entries_.emplace(id, std::move(e));
}

std::string SessionStore::reserve(const std::string& kind) {
  return new_id(kind);
}

std::string SessionStore::add(const std::string& kind, const std::string& model, int64_t position,
                              std::string bytes) {
  auto id = new_id(kind);
  add_as(id, model, position, std::move(bytes));
  return id;
}

void SessionStore::add_as(const std::string& id, const std::string& model, int64_t position,
                          std::string bytes) {
  bytes.shrink_to_fit();
  Entry e;
  e.info.model = model;
  e.info.position = position;
  e.bytes = std::make_shared<const std::string>(std::move(bytes));
  const Lock lock(mutex_);
  insert(id, std::move(e));
}

SessionBytes SessionStore::read(const std::string& id, const std::string& model) {
  const Lock lock(mutex_);
  Entry& e = entry_of(id, model);
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
  return entry(id).info;
}

std::vector<SessionInfo> SessionStore::list() {
  const Lock lock(mutex_);
  std::vector<SessionInfo> all;
  for (const auto& [id, e] : entries_) all.push_back(e.info);
  return all;
}

void SessionStore::remove(const std::string& id) {
  const Lock lock(mutex_);
  Entry& e = entry(id);
  if (e.info.busy) throw ApiError(409, cat("Session '", id, "' is being continued."), "session");
  drop(e);
  if (lock_) discard(file_of(e.info));
  entries_.erase(id);
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
  Entry& e = entry_of(id, model);
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
  const Lock lock(mutex_);
  Entry& e = entry(id);
  drop(e);
  e.bytes = std::make_shared<const std::string>(std::move(bytes));
  e.info.bytes = int64_t(e.bytes->size());
  e.info.position = position;
  e.info.in_memory = true;
  e.info.saved = e.info.busy = false;
  e.used = Clock::now();
  bytes_ += e.info.bytes;
}

void SessionStore::give_back(const std::string& id) {
  const Lock lock(mutex_);
  entry(id).info.busy = false;
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

// The allocator keeps freed sessions for itself until it is asked.
void SessionStore::trim() {
  {
    const Lock lock(mutex_);
    most_ = std::max(most_, bytes_);
    if (most_ - bytes_ < kTrimBytes) return;
    most_ = bytes_;
  }
  malloc_trim(0);
}

void SessionStore::spill_idle() {
  trim();
  if (!lock_) return;
  const auto idle = std::chrono::duration<double>(limits_.idle_s);
  std::vector<std::string> ids;
  {
    const Lock lock(mutex_);
    for (const auto& [id, e] : entries_) {
      if (e.bytes != nullptr && !e.info.busy && Clock::now() - e.used >= idle) ids.push_back(id);
    }
  }
  // One at a time, so that nobody waits for the disk longer than a file takes.
  Failures failures;
  for (const auto& id : ids) {
    const Lock lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.info.busy) continue;
    failures.run([&] {
      save(found->second);
      drop(found->second);
    });
  }
  // What was given back is larger than what was taken, and may have spent the bytes.
  for (bool spilled = true; spilled;) {
    spilled = false;
    const Lock lock(mutex_);
    if (bytes_ > limits_.bytes) failures.run([&] { spilled = spill_oldest(nullptr); });
  }
  failures.report();
}

int64_t SessionStore::bytes_in_memory() const {
  const Lock lock(mutex_);
  return bytes_;
}

int64_t SessionStore::count() const {
  const Lock lock(mutex_);
  return int64_t(entries_.size());
}

}  // namespace tost
