// What tests of files share: a folder of their own, and an event in the middle of a write.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "tost/base/file.h"
#include "tost/base/file_calls.h"
#include "tost/base/posix.h"

namespace tost {
namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tost_file_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

// Calls `then` once, in the middle of a write.
class AtFirstSync : public FileCalls {
 public:
  explicit AtFirstSync(std::function<void()> then) : then_(std::move(then)) {
    replace_file_calls(this);
  }
  ~AtFirstSync() override { replace_file_calls(nullptr); }
  int open(const fs::path& path, int flags, mode_t mode) override {
    opened = path;
    return FileCalls::open(path, flags, mode);
  }
  int fsync(int fd) override {
    if (const auto then = std::exchange(then_, nullptr)) then();
    return FileCalls::fsync(fd);
  }

  fs::path opened;

 private:
  std::function<void()> then_;
};

}  // namespace tost
