#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/folder_lock.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::mentions;

TEST(FolderPlace, NoticesAFolderThatIsMissingOrAnotherOne) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "run", away = dir.path() / "away";
  fs::create_directory(folder);
  const FolderPlace place(folder);
  const auto found = [&] { return testing::data_error_of([&] { place.check(); }); };
  EXPECT_EQ(found(), "");
  fs::rename(folder, away);
  EXPECT_TRUE(mentions(found(), "run' was removed or moved away")) << found();
  fs::create_directory(folder);
  EXPECT_TRUE(mentions(found(), "run' was replaced by another folder")) << found();
  fs::remove(folder);
  fs::rename(away, folder);
  EXPECT_EQ(found(), "");
  fs::remove(folder);
  fs::create_directory(folder);  // its number may be that of the one before only if that is free
  EXPECT_TRUE(mentions(found(), "replaced")) << found();
}

TEST(FolderPlace, NeedsAFolder) {
  const testing::TempDir dir;
  EXPECT_NE(testing::data_error_of([&] { FolderPlace(dir.path() / "none"); }), "");
}

}  // namespace
}  // namespace tost
