// Every test run replays the inputs of the fuzzers.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fuzz/targets.h"
#include "tost/base/file.h"
#include "tost/io/zip_archive.h"

namespace tost::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(TOST_SOURCE_DIR) / "fuzz/corpus";

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, EveryInputEndsInDataOrASentence) {
  const Target& target = GetParam();
  const std::string name = std::string(target.name) + ".zip";
  const std::string bytes = read_file(kCorpus / name, 1 << 20);
  const ZipArchive archive(bytes, name);
  for (const ZipEntry& entry : archive.entries()) {
    SCOPED_TRACE(entry.name);
    EXPECT_NO_THROW(target.run(archive.read(entry)));
  }
  EXPECT_GE(archive.entries().size(), 10u);
  EXPECT_NO_THROW(target.run(""));
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CorpusArchives, EveryOneHasItsTarget) {
  std::set<std::string> names, archives;
  for (const Target& target : kTargets) names.insert(target.name);
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    archives.insert(entry.path().stem().string());
  }
  EXPECT_EQ(archives, names);
}

}  // namespace
}  // namespace tost::fuzz
