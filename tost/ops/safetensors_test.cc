#include "tost/ops/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

class SafetensorsFiles : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }

  const testing::TempDir dir_;
  const fs::path folder_ = dir_.path();
};

std::map<std::string, torch::Tensor> every_type() {
  std::map<std::string, torch::Tensor> tensors;
  const auto values = torch::tensor({0.0, 1.0, 2.5, -3.0, 100.0, 7.0});
  for (auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                    torch::kInt64, torch::kInt32, torch::kInt16, torch::kInt8, torch::kBool,
                    torch::kFloat8_e5m2, torch::kFloat8_e4m3fn}) {
    tensors[cat("t.", type)] = values.to(type).view({2, 3});
  }
  for (auto type : {torch::kUInt8, torch::kUInt16, torch::kUInt32, torch::kUInt64}) {
    tensors[cat("u.", type)] = values.abs().to(type).view({3, 2});
  }
  return tensors;
}

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  const auto x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 ||  // memcmp takes no null pointer
          std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

TEST_F(SafetensorsFiles, EveryTypeComesBackBitForBit) {
  auto tensors = every_type();
  tensors["scalar"] = torch::tensor(3.5f);
  tensors["empty"] = torch::empty({0, 5});
  tensors["name with \"quotes\", ünïcode and\nnewline"] = torch::ones({1});
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"note", "a \"b\" \\ ü"}};
  save_safetensors(path("f.safetensors"), tensors, metadata);
  const auto file = load_safetensors(path("f.safetensors"));
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(file.tensors.count(name)) << name;
    EXPECT_TRUE(same_bytes(tensor, file.tensors.at(name))) << name;
  }
}

TEST_F(SafetensorsFiles, StridedAndSharedTensorsAreWrittenByValue) {
  const auto base = torch::arange(12.0).view({3, 4});
  save_safetensors(path("f"),
                   {{"base", base}, {"column", base.select(1, 2)}, {"turned", base.t()}});
  const auto file = load_safetensors(path("f"));
  EXPECT_TRUE(torch::equal(file.tensors.at("column"), base.select(1, 2)));
  EXPECT_TRUE(torch::equal(file.tensors.at("turned"), base.t()));
  EXPECT_TRUE(file.tensors.at("turned").is_contiguous());
}

TEST_F(SafetensorsFiles, DataIsAlignedAndWritingIsDeterministic) {
  save_safetensors(path("a"), every_type(), {{"k", "v"}});
  save_safetensors(path("b"), every_type(), {{"k", "v"}});
  const auto bytes = read_file(path("a"), 1 << 20);
  EXPECT_EQ(bytes, read_file(path("b"), 1 << 20));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  for (const auto& [name, tensor] : load_safetensors(path("a")).tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % tensor.element_size(), 0u) << name;
  }
}

TEST_F(SafetensorsFiles, TensorsOutliveTheFileAndNeverWriteToIt) {
  save_safetensors(path("f"), {{"a", torch::ones({1000})}});
  auto tensor = load_safetensors(path("f")).tensors.at("a");
  tensor.zero_();
  EXPECT_TRUE(torch::equal(load_safetensors(path("f")).tensors.at("a"), torch::ones({1000})));
  fs::remove(path("f"));
  EXPECT_EQ(tensor.sum().item<float>(), 0);
}

TEST_F(SafetensorsFiles, FailedSaveLeavesTheOldFileAndNoTrace) {
  save_safetensors(path("f"), {{"a", torch::ones({3})}});
  EXPECT_THROW(save_safetensors(path("f"), {{"a", torch::Tensor()}}), Error);
  EXPECT_THROW(save_safetensors(path("f"), {{"__metadata__", torch::ones({3})}}), Error);
  EXPECT_THROW(save_safetensors(path("f"), {{"\xff", torch::ones({3})}}), Error);
  EXPECT_THROW(save_safetensors(path("f"), {{"c", torch::ones({3}, torch::kComplexFloat)}}), Error);
  EXPECT_THROW(save_safetensors(path("f"), {{"s", torch::eye(3).to_sparse()}}), Error);
  EXPECT_THROW(save_safetensors(path("no/such/folder/f"), {{"a", torch::ones({3})}}), Error);
  EXPECT_EQ(load_safetensors(path("f")).tensors.at("a").numel(), 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(SafetensorsFiles, MissingFileAndFolderAreNamed) {
  for (const auto& wrong : {path("absent"), folder_}) {
    try {
      load_safetensors(wrong);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong.string()), std::string::npos) << error.what();
    }
  }
}

TEST(SafetensorsReference, FilesOfTheReferencePackageAreReadAndRewrittenToTheSameContent) {
  TOST_SHARED_OR_SKIP(parity, "parity");
  const testing::TempDir dir;
  const fs::path copy = dir.path() / "copy";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(parity)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = load_safetensors(entry.path());
    EXPECT_FALSE(file.tensors.empty());
    save_safetensors(copy, file.tensors, file.metadata);
    const auto again = load_safetensors(copy);
    ASSERT_EQ(again.tensors.size(), file.tensors.size());
    for (const auto& [name, tensor] : file.tensors) {
      EXPECT_TRUE(same_bytes(tensor, again.tensors.at(name))) << entry.path() << " " << name;
    }
    ++files;
  }
  EXPECT_GE(files, 14);
}

}  // namespace
}  // namespace tost
