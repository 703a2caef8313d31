// Small data sets for the tests of this layer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/io/dataset.h"

namespace tost::testing {

// Two classes of random pictures; the indices in `bad` cannot be read.
class FakeDataset : public ImageDataset {
 public:
  FakeDataset(int64_t size, int64_t side, int64_t channels, std::set<int64_t> bad = {})
      : size_(size), side_(side), channels_(channels), bad_(std::move(bad)) {}

  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 2; }
  Image image(int64_t i) const override {
    if (bad_.contains(i)) fail_data("Image '", name(i), "' is damaged.");
    Image image(side_, side_, channels_);
    for (size_t k = 0; k < image.pixels.size(); ++k) {
      image.pixels[k] = static_cast<uint8_t>(static_cast<size_t>(i) * 31 + k * k % 97);
    }
    return image;
  }
  std::string name(int64_t i) const override { return cat("picture-", i); }
  std::string format() const override { return "idx"; }
  int64_t channels() const override { return channels_; }
  int64_t side() const override { return side_; }

 private:
  int64_t size_, side_, channels_;
  std::set<int64_t> bad_;
  std::vector<std::string> classes_ = {"even", "odd"};
};

// A temporary folder, removed afterwards.
class FolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // The message of the Error that opening must throw.
  std::string refusal(const DataSpec& spec, const std::string& split) const {
    return testing::error_of([&] { open_image_dataset(spec, split); });
  }

  const TempDir dir_;
  const std::filesystem::path folder_ = dir_.path();
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tost::testing
