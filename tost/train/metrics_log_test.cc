#include <gtest/gtest.h>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/train/run_log.h"

namespace tost {
namespace {

TEST(MetricsLog, DropsLinesBeyondTheStepAndAHalfLine) {
  const testing::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    log.add({{"step", 10}, {"loss", 1.5}});
    log.add({{"step", 20}, {"loss", 1.25}});
    log.add({{"step", 30}, {"loss", 1.125}});
  }
  OutputFile(path, OutputFile::Mode::kAppend).write("{\"step\": 3");
  MetricsLog log(path, 20);
  log.add({{"step", 25}});
  log.flush();
  EXPECT_EQ(read_file(path, 1000),
            "{\"loss\":1.5,\"step\":10}\n{\"loss\":1.25,\"step\":20}\n{\"step\":25}\n");
}

TEST(MetricsLog, IsReadInPiecesOfAnySize) {
  const testing::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  const std::string intact = "{\"step\":1}\n{\"step\":22}\n{\"step\":3}\n";
  for (const char* dropped : {"", "{\"step\":99}\n", "{\"step\":2"}) {
    for (size_t piece = 1; piece < 40; ++piece) {
      write_file_atomic(path, intact + dropped);
      MetricsLog(path, 50, 0, piece);
      EXPECT_EQ(read_file(path, 1000), intact) << piece << " " << dropped;
    }
  }
}

TEST(MetricsLog, NamesALineThatIsNotALogLine) {
  const testing::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  write_file_atomic(path, "{\"step\":1}\nhello\n");
  try {
    MetricsLog log(path, 5);
    FAIL() << "must be refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_file(path, 1000), "{\"step\":1}\nhello\n");
}

}  // namespace
}  // namespace tost
