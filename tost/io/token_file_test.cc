// Token files of nanoGPT and llm.c: written, read, and refused.
#include "tost/io/token_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/temp_dir.h"
#include "tost/io/token_test_util.h"

namespace tost {
namespace token_file_test {

namespace fs = std::filesystem;
using testing::expect_part;
using testing::refusal;
using Ids = std::vector<int32_t>;

std::string words16(std::initializer_list<uint16_t> ids) {
  return {reinterpret_cast<const char*>(ids.begin()), 2 * ids.size()};
}

std::string header(int32_t magic, int32_t version, int32_t count) {
  const TokenFileHeader numbers{magic, version, count};
  return {reinterpret_cast<const char*>(numbers.data()), kTokenHeaderBytes};
}

class TokenFiles : public ::testing::Test {
 protected:
  fs::path write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_refused(const std::string& content, const std::string& part) const {
    const std::string message = refusal([&] { const TokenFile file(write(content)); });
    expect_part(message, path_.string());
    expect_part(message, part);
  }

  testing::TempDir dir_;
  fs::path path_ = dir_.path() / "train.bin";
};

TEST_F(TokenFiles, ReadsBothFormats) {
  {
    const TokenFile raw(write(words16({5, 65535, 0})));
    EXPECT_EQ(raw.format(), TokenFormat::kNanoGpt);
    ASSERT_EQ(raw.size(), 3);
    EXPECT_EQ(raw.ids()[1], 65535);
    EXPECT_EQ(raw.largest(), 65535);
  }
  const TokenFile llmc(write(header(20240520, 1, 2) + words16({7, 8})));
  EXPECT_EQ(llmc.format(), TokenFormat::kLlmC);
  ASSERT_EQ(llmc.size(), 2);
  EXPECT_EQ(llmc.ids()[0], 7);
}

TEST_F(TokenFiles, WritesWhatItReads) {
  for (const TokenFormat format : {TokenFormat::kNanoGpt, TokenFormat::kLlmC}) {
    TokenFileWriter writer(path_, format);
    writer.add({1, 2});
    writer.add({});
    writer.add({65535});
    EXPECT_FALSE(fs::exists(path_));
    writer.finish();
    const TokenFile file(path_);
    EXPECT_EQ(file.format(), format);
    EXPECT_EQ(Ids(file.ids(), file.ids() + file.size()), (Ids{1, 2, 65535}));
    EXPECT_EQ(bytes(), (format == TokenFormat::kLlmC ? header(20240520, 1, 3) : "") +
                           words16({1, 2, 65535}));
    fs::remove(path_);
  }
}

TEST_F(TokenFiles, LeavesNothingWithoutFinish) {
  {
    TokenFileWriter writer(path_, TokenFormat::kLlmC);
    writer.add({1});
    for (const int32_t id : {-1, 65536}) {
      expect_part(refusal([&] { writer.add({2, id}); }), cat("Token ", id, " does not fit"));
    }
  }
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(TokenFiles, RefusesMalformedFiles) {
  expect_refused("", "holds no tokens");
  expect_refused("abc", "3 bytes, an odd number");
  expect_refused(header(20240801, 7, 1) + words16({1, 0}), "file of 32-bit tokens");
  expect_refused(header(20240520, 1, 1).substr(0, 1000), "fewer than the header of 1024");
  expect_refused(header(20240520, 7, 1) + words16({1}), "version 7; version 1");
  expect_refused(header(20240520, 1, 0), "holds no tokens");
  for (const int32_t count : {1, 3, 0, -1, std::numeric_limits<int32_t>::max()}) {
    expect_refused(header(20240520, 1, count) + words16({1, 2}),
                   cat("claims ", count, " tokens in its header and holds 2"));
  }
  expect_part(refusal([&] { TokenFile(dir_.path() / "absent"); }), "absent");
  expect_part(refusal([&] { TokenFile(dir_.path()); }), "is a folder");
}

TEST_F(TokenFiles, NamesTokensOutsideTheVocabulary) {
  const TokenFile file(write(words16({5, 9, 10, 11})));
  file.check_below(12, 0, 4);
  file.check_below(10, 0, 2);
  const std::string message = refusal([&] { file.check_below(10, 1, 3); });
  expect_part(message, "the token 10 at place 2, outside the vocabulary of 10");
}

TEST(TokenFormats, HaveNames) {
  EXPECT_EQ(token_format_from_name("nanogpt"), TokenFormat::kNanoGpt);
  EXPECT_EQ(token_format_from_name("llmc"), TokenFormat::kLlmC);
  expect_part(refusal([] { token_format_from_name("llm.c"); }, ErrorKind::kUsage), "'llmc'?");
}

}  // namespace token_file_test
}  // namespace tost
