// For the tests of tokenizers and token files.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tost/base/error.h"

namespace tost::testing {

// The message of the Error of this kind that `call` must throw.
template <typename Call>
std::string refusal(Call call, ErrorKind kind = ErrorKind::kData) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

}  // namespace tost::testing
