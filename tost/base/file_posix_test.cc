// What only POSIX has of files: pipes, limits, other processes.
#include <sys/wait.h>

#include "tost/base/error.h"
#include "tost/base/file_test_util.h"

namespace tost {
namespace {

TEST_F(FileTest, ReadsFilesThatStateNoSize) {
  EXPECT_FALSE(read_file("/proc/self/status", 1 << 20).empty());
}

// The sentence of the data Error that opening `path` ends with.
std::string refusal(const fs::path& path) {
  try {
    read_file(path, 1 << 20);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  ADD_FAILURE() << "read";
  return "";
}

// Reading a pipe that nobody writes to would wait for ever.
TEST_F(FileTest, RefusesWhatIsNoPlainFileWithoutWaiting) {
  const fs::path pipe = folder_ / "pipe", socket = folder_ / "s";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_NE(refusal(pipe).find("pipe' is not a plain file but a pipe"), std::string::npos);
  EXPECT_NE(refusal(socket).find("s' is not a plain file but a socket"), std::string::npos);
  EXPECT_NE(refusal("/dev/zero").find("'/dev/zero' is not a plain file but a device"),
            std::string::npos);
  EXPECT_NE(refusal(folder_).find("is a folder; a file is expected"), std::string::npos);
  EXPECT_THROW(read_beginning(pipe, 8), Error);
}

TEST_F(FileTest, FailedWriteKeepsTheOldFileAndLeavesNothing) {
  write_file_atomic(folder_ / "x", "old");
  // A file size limit makes write() fail half-way, as a full disk would.
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  struct rlimit small = limit;
  small.rlim_cur = 1000;
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file_atomic(folder_ / "x", std::string(5000, 'n')), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(read_file(folder_ / "x", 100), "old");
  EXPECT_EQ(files(), 1u);
}

bool succeeds_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST_F(FileTest, WritersOfOnePathShareNoTemporary) {
  const std::string first(5000, 'a'), second(9000, 'b');
  for (const bool child : {false, true}) {
    const auto write = [&] { write_file_atomic(folder_ / "x", second); };
    const AtFirstSync disk([&] {
      if (child) {
        EXPECT_TRUE(succeeds_in_child(write));
      } else {
        write();
      }
      EXPECT_EQ(read_file(folder_ / "x", 9000), second);
    });
    write_file_atomic(folder_ / "x", first);
    EXPECT_EQ(read_file(folder_ / "x", 9000), first);
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(FileTest, FullDiskIsNamed) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  OutputFile file("/dev/full");
  try {
    file.write("x");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("disk is full"), std::string::npos) << error.what();
  }
}

TEST_F(FileTest, PipesAreWrittenToAndStayPipes) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file_atomic(pipe, "through");
  char bytes[16];
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 7);
  ::close(reader);
  EXPECT_EQ(fs::status(pipe).type(), fs::file_type::fifo);
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace tost
