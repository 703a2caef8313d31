#include "tost/base/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"

namespace tost {
namespace {

TEST(FolderLock, HoldsOthersOffAndNamesTheHolder) {
  const testing::TempDir dir;
  const auto refusal = [&] {
    return testing::usage_error_of([&] { const FolderLock second(dir.path()); });
  };
  {
    const FolderLock first(dir.path());
    EXPECT_TRUE(testing::mentions(refusal(), cat("Another process (pid ", ::getpid(), ")")))
        << refusal();
    std::ofstream(dir.path() / ".lock") << "nonsense";
    EXPECT_TRUE(testing::mentions(refusal(), "Another process is at work in")) << refusal();
    EXPECT_TRUE(testing::mentions(refusal(), "another folder with --out.")) << refusal();
    const std::string sessions =
        testing::usage_error_of([&] { const FolderLock second(dir.path(), "--sessions"); });
    EXPECT_TRUE(testing::mentions(sessions, "another folder with --sessions.")) << sessions;
  }
  EXPECT_EQ(refusal(), "");
}

TEST(FolderLock, AProcessThatDiesLetsGo) {
  const testing::TempDir dir;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FolderLock held(dir.path());
    ::_exit(0);  // no destructor runs, as in a killed process
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_NO_THROW(FolderLock(dir.path()));
}

}  // namespace
}  // namespace tost
