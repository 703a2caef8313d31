// What the fuzzers kept is read again with every test run.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fuzz/targets.h"
#include "tost/base/file.h"

namespace tost::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(TOST_SOURCE_DIR) / "fuzz/corpus";

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, EveryFileEndsInDataOrASentence) {
  const Target& target = GetParam();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kCorpus / target.name)) {
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_NO_THROW(target.run(read_file(entry.path(), 1 << 20)));
    ++files;
  }
  EXPECT_GE(files, 10);
  EXPECT_NO_THROW(target.run(""));
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CorpusFolders, EveryOneHasItsTarget) {
  std::set<std::string> names, folders;
  for (const Target& target : kTargets) names.insert(target.name);
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    folders.insert(entry.path().filename().string());
  }
  EXPECT_EQ(folders, names);
}

}  // namespace
}  // namespace tost::fuzz
