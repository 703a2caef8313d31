#include "tost/serve/session_store.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <sstream>

#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/serve/fields.h"

namespace tost {
namespace {

using testing::TempDir;

template <class Work>
int status_of(const Work& work) {
  try {
    work();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 200;
}

TEST(SessionStore, ForksShareWhatIsThereAndNothingAfter) {
  SessionStore store({});
  const auto one = store.add("sess", "m", 5, "state");
  const auto two = store.fork(one);
  EXPECT_NE(one, two);
  EXPECT_EQ(store.read(one, "m"), store.read(two, "m"));  // the same bytes
  EXPECT_EQ(*store.take(two, "m"), "state");
  store.give_back(two, 6, "later");
  EXPECT_EQ(*store.read(one, "m"), "state");
  EXPECT_EQ(*store.read(two, "m"), "later");
  EXPECT_EQ(store.info(two).position, 6);
  EXPECT_EQ(store.bytes_in_memory(), 10);
  store.remove(one);
  EXPECT_EQ(status_of([&] { store.read(one, "m"); }), 404);
  EXPECT_EQ(store.bytes_in_memory(), 5);
}

TEST(SessionStore, OneRequestContinuesASession) {
  SessionStore store({});
  const auto id = store.add("sess", "m", 5, "state");
  store.take(id, "m");
  EXPECT_EQ(status_of([&] { store.take(id, "m"); }), 409);
  EXPECT_EQ(status_of([&] { store.remove(id); }), 409);
  EXPECT_EQ(*store.read(store.fork(id), "m"), "state");
  store.give_back(id);
  EXPECT_EQ(status_of([&] { store.take(id, "m"); }), 200);
  EXPECT_EQ(status_of([&] { store.take(id, "other"); }), 400);
}

TEST(SessionStore, RefusesNamesThatAreNoIds) {
  SessionStore store({});
  for (const char* id :
       {"", "sess-", "../../etc/passwd", "sess-../../../../../../../../../../../x"}) {
    EXPECT_EQ(status_of([&] { store.read(id, "m"); }), 404) << id;
    EXPECT_EQ(status_of([&] { store.remove(id); }), 404) << id;
  }
  EXPECT_EQ(status_of([&] { store.save(store.add("sess", "m", 1, "s")); }), 400);
}

TEST(SessionStore, SavedSessionsOutliveTheServer) {
  const TempDir dir;
  std::string saved, spilled, lost;
  {
    SessionStore store({.folder = dir.path() / "s", .idle_s = 0});
    spilled = store.add("sess", "m", 1, "idle");
    store.spill_idle();
    EXPECT_EQ(store.bytes_in_memory(), 0);
    EXPECT_FALSE(store.info(spilled).in_memory);
    saved = store.add("sess", "m", 2, "kept");
    store.save(saved);
    lost = store.add("sess", "m", 3, "lost");  // the server dies before it is saved
    EXPECT_EQ(status_of([&] { SessionStore second({.folder = dir.path() / "t"}); }), 200);
  }
  const auto half = dir.path() / "s" / "m" / (lost + ".safetensors.7-0.tmp");
  write_file_atomic(half, "half");
  SessionStore store({.folder = dir.path() / "s"});
  EXPECT_FALSE(path_exists(half));
  EXPECT_EQ(store.count(), 2);
  EXPECT_EQ(*store.read(saved, "m"), "kept");
  EXPECT_EQ(*store.take(spilled, "m"), "idle");
  EXPECT_EQ(status_of([&] { store.read(lost, "m"); }), 404);
  store.give_back(spilled, 9, "moved on");
  EXPECT_EQ(read_file(dir.path() / "s" / "m" / (spilled + ".safetensors"), 100), "idle");
  store.save_all();
  EXPECT_EQ(read_file(dir.path() / "s" / "m" / (spilled + ".safetensors"), 100), "moved on");
  store.remove(spilled);
  EXPECT_FALSE(path_exists(dir.path() / "s" / "m" / (spilled + ".safetensors")));
}

TEST(SessionStore, WhatCannotBeSavedStopsNoOther) {
  const TempDir dir;
  const auto folder = dir.path() / "s";
  std::vector<std::string> ids;
  SessionStore store({.folder = folder, .idle_s = 0});
  for (int i = 0; i < 5; ++i) ids.push_back(store.add("sess", "m", 1, "state"));
  std::sort(ids.begin(), ids.end());
  std::filesystem::create_directories(folder / "m" / (ids[2] + ".safetensors"));
  const auto message = [&](void (SessionStore::*work)()) -> std::string {
    try {
      (store.*work)();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto file = [&](int i) { return folder / "m" / (ids[size_t(i)] + ".safetensors"); };
  for (const auto work : {&SessionStore::save_all, &SessionStore::spill_idle}) {
    EXPECT_EQ(message(work).rfind("1 session could not be saved", 0), 0u) << message(work);
    for (const int i : {0, 1, 3, 4}) EXPECT_EQ(read_file(file(i), 100), "state");
  }
  EXPECT_EQ(store.bytes_in_memory(), 5);  // it stays where it is
  EXPECT_EQ(status_of([&] { store.save(ids[2]); }), 500);
  std::filesystem::remove(file(2));
  EXPECT_EQ(message(&SessionStore::save_all), "nothing");
  EXPECT_EQ(read_file(file(2), 100), "state");
}

#ifndef __SANITIZE_ADDRESS__  // its allocator keeps what is freed
int64_t resident_bytes() {
  std::istringstream pages(read_file("/proc/self/statm", 1000));
  int64_t all = 0, resident = 0;
  pages >> all >> resident;
  return resident * 4096;
}

TEST(SessionStore, MemoryOfSessionsOnDiskReturnsToTheSystem) {
  const TempDir dir;
  constexpr size_t kSession = 4 << 20;
  // Freed, it makes the allocator keep blocks up to this size.
  delete[] std::make_unique<char[]>(30 << 20).release();
  SessionStore store({.folder = dir.path() / "s", .idle_s = 0});
  const auto before = resident_bytes();
  for (int i = 0; i < 12; ++i) store.add("sess", "m", 1, std::string(kSession, 'x'));
  EXPECT_GT(resident_bytes(), before + int64_t(10 * kSession));
  store.spill_idle();
  EXPECT_EQ(store.bytes_in_memory(), 0);
  store.spill_idle();
  EXPECT_LT(resident_bytes(), before + int64_t(2 * kSession));
}
#endif

TEST(SessionStore, AFolderBelongsToOneServer) {
  const TempDir dir;
  const SessionStore store({.folder = dir.path() / "s"});
  EXPECT_THROW(SessionStore({.folder = dir.path() / "s"}), Error);
}

TEST(SessionStore, WhereBytesAreSpentTheOldestGo) {
  const TempDir dir;
  SessionStore disk({.folder = dir.path() / "s", .bytes = 10});
  const auto first = disk.add("sess", "m", 1, "12345");
  const auto second = disk.add("sess", "m", 1, "67890");
  const auto third = disk.add("sess", "m", 1, "abcde");
  EXPECT_EQ(disk.bytes_in_memory(), 10);
  EXPECT_FALSE(disk.info(first).in_memory);
  EXPECT_EQ(*disk.read(first, "m"), "12345");
  EXPECT_EQ(*disk.read(third, "m"), "abcde");

  EXPECT_EQ(disk.bytes_in_memory(), 10);  // what is read takes the place of others
  disk.take(third, "m");
  disk.give_back(third, 2, "abcdefgh");
  disk.spill_idle();
  EXPECT_EQ(disk.bytes_in_memory(), 8);
  EXPECT_EQ(*disk.read(second, "m"), "67890");

  SessionStore memory({.bytes = 10});
  const auto answer = memory.add("resp", "m", 1, "12345");
  const auto session = memory.add("sess", "m", 1, "67890");
  memory.add("sess", "m", 1, "abcde");  // stored answers go first
  EXPECT_EQ(status_of([&] { memory.read(answer, "m"); }), 404);
  EXPECT_EQ(status_of([&] { memory.add("sess", "m", 1, "x"); }), 429);
  EXPECT_EQ(*memory.read(session, "m"), "67890");

  SessionStore few({.count = 2});
  few.add("sess", "m", 1, "1");
  few.add("resp", "m", 1, "2");
  few.add("sess", "m", 1, "3");
  EXPECT_EQ(status_of([&] { few.fork(few.list({}, 1).first[0].id); }), 429);
}

TEST(SessionStore, WhatNeverFitsDropsNothing) {
  SessionStore store({.bytes = 10});
  const auto answer = store.add("resp", "m", 1, "12345");
  store.add("sess", "m", 1, "67890");
  EXPECT_EQ(status_of([&] { store.add("sess", "m", 1, "123456"); }), 429);
  EXPECT_EQ(*store.read(answer, "m"), "12345");
}

TEST(SessionStore, RoomIsTakenBeforeThereIsASession) {
  SessionStore store({.bytes = 10, .count = 2});
  const auto id = store.reserve("resp", "m", 8);
  EXPECT_EQ(status_of([&] { store.add("sess", "m", 1, "123"); }), 429);
  for (const auto& work : std::vector<std::function<void()>>{
           [&] { store.read(id, "m"); }, [&] { store.info(id); }, [&] { store.fork(id); },
           [&] { store.take(id, "m"); }, [&] { store.remove(id); }}) {
    EXPECT_EQ(status_of(work), 404);
  }
  EXPECT_TRUE(store.list({}, 10).first.empty());
  store.give_back(id, 5, "12345678901");  // larger than was thought: kept all the same
  EXPECT_EQ(store.info(id).position, 5);
  EXPECT_EQ(store.bytes_in_memory(), 11);
  store.remove(id);
  store.give_back(store.reserve("sess", "m", 8));
  EXPECT_EQ(store.count(), 0);
  EXPECT_EQ(store.bytes_in_memory(), 0);
}

TEST(SessionStore, PagesFollowOneAnother) {
  SessionStore store({});
  std::vector<std::string> ids, seen;
  for (int i = 0; i < 7; ++i) ids.push_back(store.add("sess", "m", 1, "s"));
  std::sort(ids.begin(), ids.end());
  std::string after;
  for (bool more = true; more;) {
    const auto page = store.list(after, 3);
    for (const auto& info : page.first) seen.push_back(info.id);
    after = seen.back();
    more = page.second;
  }
  EXPECT_EQ(seen, ids);
  EXPECT_EQ(store.list(ids[2], 1).first[0].id, ids[3]);
  EXPECT_FALSE(store.list(ids[6], 3).second);
}

TEST(SessionStore, UnusedSessionsEnd) {
  const TempDir dir;
  const SessionLimits limits{.folder = dir.path() / "s", .age_s = 3600};
  std::string fresh, old;
  {
    SessionStore store(limits);
    fresh = store.add("sess", "m", 1, "kept");
    old = store.add("sess", "m", 1, "old");
    EXPECT_EQ(store.info(fresh).expires_at, store.info(fresh).created + 3600);
    store.spill_idle();
    EXPECT_EQ(store.count(), 2);
    store.save_all();
  }
  const auto file = dir.path() / "s" / "m" / (old + ".safetensors");
  std::filesystem::last_write_time(file,
                                   std::filesystem::last_write_time(file) - std::chrono::hours(2));
  SessionStore store(limits);  // a restart makes nothing younger
  EXPECT_EQ(store.count(), 2);
  store.spill_idle();
  EXPECT_EQ(status_of([&] { store.read(old, "m"); }), 404);
  EXPECT_FALSE(path_exists(file));
  EXPECT_EQ(*store.read(fresh, "m"), "kept");

  SessionStore brief({.age_s = 1e-9});
  const auto id = brief.add("sess", "m", 1, "s");
  brief.take(id, "m");
  brief.spill_idle();
  EXPECT_EQ(brief.count(), 1);  // somebody does
  brief.give_back(id);
  brief.spill_idle();
  EXPECT_EQ(brief.count(), 0);
  SessionStore never({.age_s = 0});
  EXPECT_EQ(never.info(never.add("sess", "m", 1, "s")).expires_at, 0);
}

}  // namespace
}  // namespace tost
