#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// A machine with 1,000 kB available, and a process in the group /pod/box.
class AvailableBytes : public ::testing::Test {
 protected:
  AvailableBytes() {
    put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    1000 kB\n");
    put("proc/self/cgroup", "3:cpu:/other\n0::/pod/box\n");
    put("groups/pod/memory.max", "max\n");
    put("groups/pod/memory.current", "800000\n");
  }

  void put(const std::string& name, const std::string& text) {
    make_directories((folder_.path() / name).parent_path());
    write_file_atomic(folder_.path() / name, text);
  }

  void limit(const std::string& group, int64_t max, int64_t used, int64_t droppable) {
    put(group + "/memory.max", std::to_string(max) + "\n");
    put(group + "/memory.current", std::to_string(used) + "\n");
    put(group + "/memory.stat",
        "anon 5\nfile 6\ninactive_file " + std::to_string(droppable) + "\nslab 7\n");
  }

  int64_t available() const {
    return available_bytes(folder_.path() / "proc", folder_.path() / "groups");
  }

  testing::TempDir folder_;
};

TEST_F(AvailableBytes, IsTheMachinesWithoutLimits) {
  EXPECT_EQ(available(), 1000 * 1024);
}

TEST_F(AvailableBytes, IsWhatTheOwnGroupLeaves) {
  limit("groups/pod/box", 600'000, 500'000, 200'000);
  EXPECT_EQ(available(), 300'000);
}

TEST_F(AvailableBytes, IsWhatTheGroupsAboveLeave) {
  limit("groups/pod/box", 900'000, 0, 0);
  limit("groups/pod", 800'000, 400'000, 0);
  EXPECT_EQ(available(), 400'000);
  limit("groups", 100'000, 30'000, 0);
  EXPECT_EQ(available(), 70'000);
}

TEST_F(AvailableBytes, IsNeverUnknownWhereNothingIsLeft) {
  limit("groups/pod/box", 600'000, 700'000, 0);
  EXPECT_EQ(available(), 1);
  put("proc/meminfo", "MemTotal: 9000 kB\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(AvailableBytes, LeavesOutGroupsThatTheCameraDoesNotSee) {
  put("proc/self/cgroup", "0::/../outside\n");
  limit("outside", 10, 0, 0);
  EXPECT_EQ(available(), 1000 * 1024);
}

TEST(ProcessMemory, OfThisProcessIsKnown) {
  const int64_t now = resident_bytes();
  EXPECT_TRUE(now > 0 && peak_resident_bytes() >= now) << now;
  EXPECT_GT(available_bytes(), 1);
}

TEST(HighWater, RestartsAndRises) {
  if (!restart_high_water()) GTEST_SKIP() << "Linux does not allow it here";
  const int64_t before = high_water_bytes();
  constexpr size_t kBytes = 64 << 20;
  // Mapped by hand: sanitizers keep what is freed.
  void* block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 'x', kBytes);
  EXPECT_GE(high_water_bytes(), before + int64_t(kBytes) / 2);
  ASSERT_EQ(::munmap(block, kBytes), 0);
  ASSERT_TRUE(restart_high_water());
  EXPECT_LT(high_water_bytes(), before + int64_t(kBytes) / 2);
}

}  // namespace
}  // namespace tost
