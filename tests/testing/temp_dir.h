// A temporary folder for one test; the destructor removes the folder and its content.
#pragma once

#include <filesystem>
#include <random>
#include <string>

namespace tost::testing {

class TempDir {
 public:
  TempDir() {
    std::random_device system;
    do {
      path_ = std::filesystem::temp_directory_path() / ("tost_test_" + std::to_string(system()));
    } while (!std::filesystem::create_directory(path_));
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tost::testing
