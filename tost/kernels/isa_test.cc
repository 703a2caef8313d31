#include "tost/kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tost/base/error.h"

namespace tost::kernels {
namespace {

TEST(Isa, ScalarIsAlwaysThereAndLast) {
  const auto names = supported_isas();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "scalar");
  EXPECT_EQ(std::count(names.begin(), names.end(), "scalar"), 1);
#if defined(__x86_64__)
  EXPECT_GE(names.size(), 2u) << "every x86-64 processor since 2012 has SSE4.2";
#endif
}

TEST(Isa, ForcesByName) {
  for (const auto& name : supported_isas()) {
    force_isa(name);
    EXPECT_EQ(current_isa(), name);
  }
  force_isa("auto");
  EXPECT_EQ(current_isa(), supported_isas().front());
}

TEST(Isa, AWrongNameIsAnErrorThatListsTheRightOnes) {
  const auto before = current_isa();
  try {
    force_isa("sse9");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    for (const auto& name : supported_isas()) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(current_isa(), before);
}

// In a fresh process: the variable is read once.
void exit_with_isa_of_environment(const char* value) {
#ifdef _WIN32
  _putenv_s("TOST_ISA", value);
#else
  setenv("TOST_ISA", value, 1);
#endif
  try {
    std::fputs(current_isa().c_str(), stderr);
    std::exit(0);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(2);
  }
}

TEST(IsaDeathTest, TheEnvironmentChooses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_isa_of_environment("scalar"), ::testing::ExitedWithCode(0), "scalar");
  EXPECT_EXIT(exit_with_isa_of_environment("mmx"), ::testing::ExitedWithCode(2),
              "TOST_ISA.*'mmx'.*scalar");
}

}  // namespace
}  // namespace tost::kernels
