// Finds the data sets and reference numbers next to the source tree.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tost::testing {

// The folder that the variable TOST_SHARED names, else ../shared next to the source tree; the
// folder need not exist. TOST_SOURCE_DIR is a compile definition of every test.
inline std::filesystem::path shared_path(const std::string& relative) {
  const char* set = std::getenv("TOST_SHARED");
  const std::filesystem::path root = set != nullptr
                                         ? std::filesystem::path(set)
                                         : std::filesystem::path(TOST_SOURCE_DIR) / ".." / "shared";
  return (root / relative).lexically_normal();
}

}  // namespace tost::testing

// Declares `variable` as the path of shared data. Skips the test if there is no shared data.
#define TOST_SHARED_OR_SKIP(variable, relative)                                                   \
  const std::filesystem::path variable = ::tost::testing::shared_path(relative);                  \
  if (!std::filesystem::exists(variable)) {                                                       \
    GTEST_SKIP() << "needs " << variable << ", which is missing; set TOST_SHARED to where it is"; \
  }                                                                                               \
  static_assert(true, "takes the semicolon")
