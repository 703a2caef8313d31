#include "tost/base/path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {
namespace {
namespace fs = std::filesystem;

class PathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "inside");
    write_file_atomic(folder_ / "b", "1234");
    fs::create_symlink("b", folder_ / "link");
    fs::create_symlink("nothing", folder_ / "broken");
    fs::create_symlink("inside", folder_ / "away");
    fs::create_symlink("circle", folder_ / "circle");
  }
  void TearDown() override { fs::permissions(folder_ / "inside", fs::perms::owner_all); }

  const testing::TempDir dir_;
  const fs::path folder_ = dir_.path();
};

using Query = std::function<void(const fs::path&)>;

// Every function that looks at a path.
const std::vector<Query> kQueries = {
    [](const fs::path& path) { path_exists(path); },
    [](const fs::path& path) { is_folder(path); },
    [](const fs::path& path) { is_plain_file(path); },
    [](const fs::path& path) { is_empty_folder(path); },
    [](const fs::path& path) { folder_entries(path); },
    [](const fs::path& path) { file_bytes(path); },
    [](const fs::path& path) { canonical_path(path); },
    [](const fs::path& path) { read_file(path, 100); },
    [](const fs::path& path) { write_file_atomic(path, "x"); },
    [](const fs::path& path) { make_directories(path / "deeper"); }};

void expect_refusals(const fs::path& path, const std::string& reason) {
  for (size_t i = 0; i < kQueries.size(); ++i) {
    try {
      kQueries[i](path);
      ADD_FAILURE() << "question " << i << " was answered";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(message.find(path.string()), std::string::npos) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
    }
  }
}

TEST_F(PathTest, FollowsLinks) {
  EXPECT_TRUE(path_exists(folder_));
  EXPECT_TRUE(is_folder(folder_ / "away"));
  EXPECT_FALSE(is_plain_file(folder_ / "away"));
  EXPECT_TRUE(is_plain_file(folder_ / "link"));
  EXPECT_TRUE(is_link(folder_ / "link"));
  EXPECT_FALSE(is_link(folder_ / "b"));
  EXPECT_EQ(file_bytes(folder_ / "link"), 4);
  for (const char* name : {"broken", "nothing", "b/below a file", ""}) {
    const fs::path path = std::string(name).empty() ? fs::path() : folder_ / name;
    EXPECT_FALSE(path_exists(path)) << name;
    EXPECT_FALSE(is_folder(path)) << name;
    EXPECT_FALSE(is_plain_file(path)) << name;
    EXPECT_EQ(is_taken(path), path.filename() == "broken") << name;
  }
  EXPECT_EQ(canonical_path(folder_ / "away/../b"), fs::canonical(folder_ / "b"));
  EXPECT_TRUE(is_empty_folder(folder_ / "inside"));
  EXPECT_FALSE(is_empty_folder(folder_));
}

TEST_F(PathTest, ListsInOrder) {
  std::string found;
  for (const FolderEntry& entry : folder_entries(folder_)) {
    found += entry.path.filename().string() + (entry.folder ? "/" : "") + (entry.file ? "." : "") +
             (entry.link ? "@" : "") + " ";
  }
  EXPECT_EQ(found, "away/@ b. broken@ circle@ inside/ link.@ ");
}

TEST_F(PathTest, SaysWhatIsWrong) {
  expect_refusals(folder_ / std::string(300, 'n'), "at most 255 bytes");
  expect_refusals(folder_ / "circle", "links lead in a circle");
}

TEST_F(PathTest, SaysWhatIsForbidden) {
  fs::permissions(folder_ / "inside", fs::perms::none);
  if (::geteuid() == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "root cannot become nobody here";
  expect_refusals(folder_ / "inside" / "x", "permission denied");
  if (::getuid() == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}

TEST_F(PathTest, AMissingTemporaryFolderIsNamed) {
  const std::string before = temporary_folder().string(), missing = (folder_ / "none").string();
  ::setenv("TMPDIR", missing.c_str(), 1);
  try {
    temporary_folder();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("'" + missing + "'"), std::string::npos);
  }
  ::setenv("TMPDIR", before.c_str(), 1);
}

TEST_F(PathTest, AnEmptyPathIsAUsageError) {
  try {
    absolute_path("");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
  EXPECT_EQ(absolute_path("/x"), "/x");
}

}  // namespace
}  // namespace tost
