// The C interface on the shipped text model, which is skipped where it is not there.
#include "tost/engine/tost.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

namespace {

const char kModel[] = TOST_SOURCE_DIR "/models/words.safetensors";

std::string written(tost_text* text, int tokens) {
  std::string all;
  for (int i = 0; i < tokens; ++i) {
    const char* piece = tost_write(text);
    if (piece == nullptr) break;
    all += piece;
  }
  return all;
}

class Interface : public testing::Test {
 protected:
  void SetUp() override {
    model_ = tost_open(kModel);
    ASSERT_NE(model_, nullptr) << tost_error();
  }
  void TearDown() override { tost_close(model_); }

  tost_model* model_ = nullptr;
};

TEST_F(Interface, WritesInConstantState) {
  tost_text* text = tost_begin(model_, nullptr);
  EXPECT_EQ(tost_memberships(text, nullptr, 0), 0);
  EXPECT_EQ(tost_write(text), nullptr);
  EXPECT_NE(std::string(tost_error()).find("Nothing was read"), std::string::npos);
  EXPECT_EQ(tost_read(text, "The king", 8), 2) << tost_error();
  const auto bytes = tost_state_bytes(text);
  EXPECT_GT(bytes, 0);
  const std::string first = written(text, 20), rest = written(text, 20);
  EXPECT_EQ(tost_tokens(text), 42);
  EXPECT_EQ(tost_state_bytes(text), bytes);
  std::vector<float> pi(size_t(tost_memberships(text, nullptr, 0)));
  ASSERT_EQ(pi.size(), 4u * 8u);
  tost_memberships(text, pi.data(), (long long)pi.size());
  for (size_t layer = 0; layer < 4; ++layer) {
    EXPECT_NEAR(std::accumulate(&pi[layer * 8], &pi[layer * 8] + 8, 0.0), 1, 1e-5);
  }
  const std::string read = "The king" + first;
  tost_text* again = tost_begin(model_, nullptr);
  EXPECT_EQ(tost_read(again, read.data(), read.size()), 22) << tost_error();
  EXPECT_EQ(written(again, 20), rest);
  EXPECT_NE(rest, "");
  tost_end(again);
  tost_end(text);
}

TEST_F(Interface, NotesMembershipsAfterALongText) {
  std::string prompt;
  for (int i = 0; i < 300; ++i) prompt += "the king was ";
  tost_text* text = tost_begin(model_, nullptr);
  EXPECT_EQ(tost_read(text, prompt.data(), prompt.size()), 900) << tost_error();
  std::vector<float> pi(size_t(tost_memberships(text, nullptr, 0)));
  ASSERT_EQ(pi.size(), 4u * 8u);
  tost_memberships(text, pi.data(), (long long)pi.size());
  EXPECT_NEAR(std::accumulate(pi.begin(), pi.end(), 0.0), 4, 1e-4);
  EXPECT_EQ(tost_read(text, "", 0), 0);
  EXPECT_EQ(tost_tokens(text), 900);
  tost_end(text);
}

TEST_F(Interface, CopiesGoOnBySeparateWays) {
  tost_text* text = tost_begin(model_, nullptr);
  tost_read(text, "The king", 8);
  tost_text* copy = tost_copy(text);
  tost_read(text, " was", 4);
  const std::string first = written(text, 10);
  EXPECT_EQ(tost_tokens(copy), 2);
  tost_read(copy, " was", 4);
  EXPECT_EQ(written(copy, 10), first);
  tost_end(copy);
  tost_end(text);
}

TEST_F(Interface, ReadsAFileFromMemory) {
  std::ifstream file(kModel, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  tost_model* model = tost_open_bytes(bytes.data(), bytes.size());
  ASSERT_NE(model, nullptr) << tost_error();
  EXPECT_NE(std::string(tost_about(model)).find("\"depth\":4"), std::string::npos);
  const tost_sampling sampling{.temperature = 1, .seed = 7, .most_tokens = 5};
  std::string texts[2];
  for (auto& written_text : texts) {
    tost_text* text = tost_begin(model, &sampling);
    tost_read(text, "The", 3);
    written_text = written(text, 100);
    EXPECT_LE(tost_tokens(text), 6);
    tost_end(text);
  }
  EXPECT_EQ(texts[0], texts[1]);
  tost_close(model);
}

TEST(InterfaceErrors, AnAdditionThatTheMixerLacksNeedsTheFullProgram) {
  std::ifstream file(kModel, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string old = R"(\"scale_pi\":false)", wrong = R"(\"scale_pi\":true )";
  const size_t at = bytes.find(old);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, old.size(), wrong);
  EXPECT_EQ(tost_open_bytes(bytes.data(), bytes.size()), nullptr);
  EXPECT_NE(std::string(tost_error()).find("needs the full program"), std::string::npos)
      << tost_error();
}

TEST(InterfaceErrors, AreSentences) {
  EXPECT_EQ(tost_open("/nowhere.safetensors"), nullptr);
  EXPECT_NE(std::string(tost_error()).find("/nowhere.safetensors"), std::string::npos);
  EXPECT_EQ(tost_open_bytes("short", 5), nullptr);
  EXPECT_NE(std::string(tost_error()), "");
}

}  // namespace
