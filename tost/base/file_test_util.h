// What tests of files share: a folder of their own, and an event in the middle of a write.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/file_calls.h"
#include "tost/base/posix.h"

namespace tost {
namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const testing::TempDir dir_;
  const fs::path folder_ = dir_.path();
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
