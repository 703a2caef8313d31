// What the fuzzer kept is read again with every test run.
#include <gtest/gtest.h>

#include <filesystem>

#include "tost/base/file.h"
#include "tost/io/torch_fuzz.h"

namespace tost {
namespace {

TEST(TorchCorpus, EveryFileEndsInAFileOrASentence) {
  const auto folder = std::filesystem::path(TOST_SOURCE_DIR) / "tost/io/corpus/torch";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_NO_THROW(testing::try_torch_bytes(read_file(entry.path(), 1 << 20), true));
    ++files;
  }
  EXPECT_GE(files, 50);
}

}  // namespace
}  // namespace tost
