#include "tost/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/file_calls.h"

namespace tost {
namespace {
namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tost_file_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string bytes("a\0b\n", 4);
  write_file_atomic(folder_ / "x", bytes);
  EXPECT_EQ(read_file(folder_ / "x", 4), bytes);
  write_file_atomic(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x", 0), "");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, RefusesTooLargeMissingAndFolders) {
  write_file_atomic(folder_ / "x", "12345");
  EXPECT_THROW(read_file(folder_ / "x", 4), Error);
  EXPECT_THROW(read_file(folder_ / "missing", 4), Error);
  EXPECT_THROW(read_file(folder_, 1 << 20), Error);
  EXPECT_THROW(make_directories(folder_ / "x" / "y"), Error);
  EXPECT_THROW(OutputFile(folder_ / "no" / "such"), Error);
}

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

TEST_F(FileTest, ReadsTheBeginning) {
  write_file_atomic(folder_ / "x", "12345");
  EXPECT_EQ(read_beginning(folder_ / "x", 3), "123");
  EXPECT_EQ(read_beginning(folder_ / "x", 9), "12345");
  InputFile file(folder_ / "x");
  char bytes[3];
  EXPECT_EQ(file.size(), 5);
  EXPECT_EQ(file.read(bytes, 3), 3u);
  EXPECT_EQ(file.read(bytes, 3), 2u);
  EXPECT_EQ(file.read(bytes, 3), 0u);
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

// Calls `then` once, in the middle of a write.
class AtFirstSync : public FileCalls {
 public:
  explicit AtFirstSync(std::function<void()> then) : then_(std::move(then)) {
    replace_file_calls(this);
  }
  ~AtFirstSync() override { replace_file_calls(nullptr); }
  int open(const char* path, int flags, mode_t mode) override {
    opened = path;
    return FileCalls::open(path, flags, mode);
  }
  int fsync(int fd) override {
    if (const auto then = std::exchange(then_, nullptr)) then();
    return FileCalls::fsync(fd);
  }

  fs::path opened;

 private:
  std::function<void()> then_;
};

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

TEST_F(FileTest, LeftoversAreKnownAndNotWrittenTo) {
  const AtFirstSync disk([] {});
  write_file_atomic(folder_ / "x", "1");
  EXPECT_EQ(target_of_leftover(disk.opened), folder_ / "x");
  // The next one of this process is taken.
  std::string next = disk.opened.string();
  const size_t digits = next.rfind('-') + 1, end = next.rfind('.');
  next.replace(digits, end - digits, std::to_string(std::stoll(next.substr(digits)) + 1));
  OutputFile(next).write("left");
  write_file_atomic(folder_ / "x", "2");
  EXPECT_EQ(read_file(next, 9), "left");
  EXPECT_EQ(read_file(folder_ / "x", 9), "2");
  for (const char* other : {"x", "x.tmp", "x.7-0", "x.mine.tmp", "x.7-0.tmp.gz", "7-0.tmp",
                            "x..tmp", "x.-.tmp", "x.2024-05-01.tmp"}) {
    EXPECT_EQ(target_of_leftover(other), "") << other;
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

TEST_F(FileTest, AppendsAndKnowsFreeSpace) {
  {
    OutputFile file(folder_ / "log");
    file.write("a");
    file.sync();
  }
  OutputFile again(folder_ / "log", OutputFile::Mode::kAppend);
  again.write("b");
  again.close();
  EXPECT_EQ(read_file(folder_ / "log", 10), "ab");
  EXPECT_GT(free_bytes(folder_), 0);
}

}  // namespace
}  // namespace tost
