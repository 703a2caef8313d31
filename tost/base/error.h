// The one exception type of the library, and helpers that throw it.
//
// A message is one sentence for the user: what failed, where (file, tensor, flag), what was
// expected and found, what to do. Only the command line catches an Error, prints it and exits.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "tost/base/text.h"

namespace tost {

enum class ErrorKind {
  kUsage,  // a flag, name or setting the user can correct; the program exits with 2
  kData,   // a file or its content, a full disk, a non-finite loss; the program exits with 1
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Thrown if another process reports the error, so that this process exits and prints nothing.
class ReportedElsewhere : public Error {
 public:
  using Error::Error;
};

// Concatenates the parts as operator<< prints them; a NaN is printed without a sign.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << plain_nan(parts));
  return out.str();
}

template <typename... Parts>
[[noreturn]] void fail_usage(const Parts&... parts) {
  throw Error(ErrorKind::kUsage, cat(parts...));
}

template <typename... Parts>
[[noreturn]] void fail_data(const Parts&... parts) {
  throw Error(ErrorKind::kData, cat(parts...));
}

}  // namespace tost
