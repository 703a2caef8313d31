// Sessions of texts that nobody is writing: each the bytes of its file, in memory or in a folder.
// They do not change once made, so that a fork is another name for the same bytes. Free of torch.
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
  double idle_s = 60;        // then they are written to the folder and leave memory
  double age_s = 7 * 86400;  // without use; then they are removed. 0: never
};

// Thread-safe. All throw an ApiError for a session that is not there (404), that another request
// continues (409) or that there is no room for (429).
class SessionStore {
 public:
  // Takes up what lies in the folder, which is this server's alone.
  explicit SessionStore(const SessionLimits& limits);

  // Its name: "sess" or "resp" and what cannot be guessed.
  std::string add(const std::string& kind, const std::string& model, int64_t position,
                  std::string bytes);
  // A name and room for about `bytes`, before there is a session: give_back() brings it.
  std::string reserve(const std::string& kind, const std::string& model, int64_t bytes);
  SessionBytes read(const std::string& id, const std::string& model);
  std::string fork(const std::string& id);
  SessionInfo info(const std::string& id);
  // Up to `limit` in the order of ids, from the one that follows `after` on, and whether more
  // follow.
  std::pair<std::vector<SessionInfo>, bool> list(const std::string& after, int64_t limit) const;
  void remove(const std::string& id);
  // Durable once it returns. Throws an ApiError without a folder.
  void save(const std::string& id);

  // For one request alone until it is given back, changed or not. What was reserved and is given
  // back without bytes was never there.
  SessionBytes take(const std::string& id, const std::string& model);
  void give_back(const std::string& id, int64_t position, std::string bytes);
  void give_back(const std::string& id);

  // Both go through all sessions before they throw an Error that says how many could not be saved,
  // and why the first.
  void save_all();  // at the end
  // Every second or so; also removes what has expired, and gives freed memory back to the system.
  void spill_idle();
  int64_t bytes_in_memory() const;
  int64_t count() const;

 private:
  struct Entry {
    SessionInfo info;
    SessionBytes bytes;
    std::chrono::system_clock::time_point used;
    int64_t reserved = 0;  // bytes of room for a session that is not there yet
  };
  using Lock = std::lock_guard<std::mutex>;
  using Entries = std::map<std::string, Entry>;

  Entry& entry(const std::string& id);
  Entry& entry_of(const std::string& id, const std::string& model);
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
  int64_t most_ = 0;   // the largest bytes_ that was seen since memory was given back
};

}  // namespace tost
