#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"

namespace tost {
namespace {

TEST(CpuInfo, ReadsNameAndFeatures) {
  const testing::TempDir folder;
  const auto file = folder.path() / "cpuinfo";
  write_file_atomic(file,
                    "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"
                    "flags\t\t: fpu avx2 avx512fp16 amx_int8 fma\n\nprocessor\t: 1\n"
                    "model name\t: Another\nflags\t\t: avx512f\n");
  EXPECT_EQ(cpu_name(file), "Some CPU @ 2 GHz");
  EXPECT_EQ(cpu_features(file), (std::vector<std::string>{"avx2", "fma", "amx_int8"}));
}

TEST(CpuInfo, SaysWhereNothingIsKnown) {
  const testing::TempDir folder;
  EXPECT_EQ(cpu_name(folder.path() / "none"), "unknown");
  EXPECT_TRUE(cpu_features(folder.path() / "none").empty());
}

TEST(CpuInfo, ThreadsFarBeyondTheCoresAreRefused) {
  const int64_t cores = core_count();
  ASSERT_GE(cores, 1);
  for (const int64_t threads : {int64_t{0}, int64_t{1}, cores, 16 * cores}) {
    EXPECT_EQ(testing::usage_error_of([&] { check_threads(threads); }), "");
  }
  for (const int64_t threads : {int64_t{-1}, 16 * cores + 1, int64_t{1} << 40}) {
    const std::string message = testing::usage_error_of([&] { check_threads(threads); });
    EXPECT_TRUE(testing::mentions(message, cat("threads is ", threads, "; 0 (all cores) to ")))
        << message;
  }
}

}  // namespace
}  // namespace tost
