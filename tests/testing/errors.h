// Catches the Error that an action throws, for tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tost/base/error.h"

namespace tost::testing {

// The message of the Error that `action` throws; empty if it throws none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The message of the Error that `action` throws; the test fails if the Error is not of `kind`.
template <typename Action>
std::string error_of(ErrorKind kind, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

template <typename Action>
std::string usage_error_of(const Action& action) {
  return error_of(ErrorKind::kUsage, action);
}

template <typename Action>
std::string data_error_of(const Action& action) {
  return error_of(ErrorKind::kData, action);
}

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tost::testing
