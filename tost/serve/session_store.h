// Stores the sessions that no text is using, each as the bytes of its file, in memory or in a
// folder. The bytes never change, so a fork is another name for the same bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tost/base/folder_lock.h"

namespace tost {

using SessionBytes = std::shared_ptr<const std::string>;

struct SessionInfo {
  std::string id, model;
  int64_t position = -1;  // tokens read; -1: not known before it is read from its file
  int64_t bytes = 0;
  int64_t created = 0;     // seconds since 1970
  int64_t expires_at = 0;  // likewise; 0: never
  bool in_memory = false, saved = false, busy = false;
};

struct SessionLimits {
  std::filesystem::path folder = {};  // empty: sessions live as long as the server
  int64_t bytes = int64_t{1} << 30;   // in memory
  int64_t count = 100'000;
  double idle_s = 60;        // after this time they are written to the folder and leave memory
  double age_s = 7 * 86400;  // without use, then they are removed; 0: never
};

// Thread-safe. Functions throw an ApiError with status 404 for an unknown session, 409 for a
// session in use, 429 if the store is full.
class SessionStore {
 public:
  // Loads the sessions of the folder, which no other server may use.
  explicit SessionStore(const SessionLimits& limits);

  // Adds a session; returns its name: "sess" or "resp" and an unpredictable random part.
  std::string add(const std::string& kind, const std::string& model, int64_t position,
                  std::string bytes);
  // Reserves a name and about `bytes` bytes for a session that give_back() will add.
  std::string reserve(const std::string& kind, const std::string& model, int64_t bytes);
  // `model`, unless empty, is the one that the session must be of.
  SessionBytes read(const std::string& id, const std::string& model = {});
  std::string fork(const std::string& id);
  SessionInfo info(const std::string& id);
  // At most `limit` sessions with ids above `after`, in the order of ids, and whether more follow.
  std::pair<std::vector<SessionInfo>, bool> list(const std::string& after, int64_t limit) const;
  void remove(const std::string& id);
  // Saves a session durably. Throws an ApiError if the store has no folder.
  void save(const std::string& id);

  // Reserves a session for one request until give_back(), with or without a change. A reserved name
  // that is returned without bytes is removed.
  SessionBytes take(const std::string& id, const std::string& model);
  void give_back(const std::string& id, int64_t position, std::string bytes);
  void give_back(const std::string& id);

  // Both save functions try all sessions, then throw an Error with the number of failures.
  void save_all();  // at the end
  // Spills idle sessions and removes expired ones; called every second.
  void spill_idle();
  int64_t bytes_in_memory() const;
  int64_t count() const;

 private:
  struct Entry {
    SessionInfo info;
    SessionBytes bytes;
    std::chrono::system_clock::time_point used;
    int64_t reserved = 0;  // bytes reserved for a session that does not exist yet
  };
  using Lock = std::lock_guard<std::mutex>;
  using Entries = std::map<std::string, Entry>;

  Entry& entry(const std::string& id, const std::string& model = {});
  void load(Entry& entry);
  void save(Entry& entry);
  void drop(Entry& entry);
  void erase(Entries::iterator at);
  SessionInfo info_of(const Entry& entry) const;
  bool idle(const Entry& entry, double seconds) const;
  Entries::iterator oldest(bool spill);
  void make_room(int64_t bytes);
  bool spill_oldest(const Entry* but);
  void trim();
  template <class Work>
  void each_idle(double seconds, bool in_memory, const Work& work);
  void insert(const std::string& id, Entry entry);
  std::filesystem::path file_of(const SessionInfo& info) const;
  void adopt_folder();

  const SessionLimits limits_;
  std::optional<FolderLock> lock_;
  mutable std::mutex mutex_;
  Entries entries_;
  int64_t bytes_ = 0;  // of entries in memory, and reserved; bytes that two share count twice
  int64_t most_ = 0;   // the largest bytes_ since memory was returned to the system
};

}  // namespace tost
