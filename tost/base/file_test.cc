#include "tost/base/file.h"

#include "tost/base/error.h"
#include "tost/base/file_test_util.h"

namespace tost {
namespace {

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
