#include <gtest/gtest.h>

#include "tost/kinds/language/eval_test_util.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {
namespace {

using testing::LanguageFiles;

TEST(TextTokens, PiecesAreVisible) {
  EXPECT_EQ(visible_piece(" the"), "·the");
  EXPECT_EQ(visible_piece("\n\t\r"), "↵⇥␍");
  EXPECT_EQ(visible_piece("\xe2\x80"), "‹E2›‹80›");
  EXPECT_EQ(visible_piece(std::string("\0\x7f", 2)), "‹00›‹7F›");
  EXPECT_EQ(visible_piece("ä€"), "ä€");
  EXPECT_EQ(visible_piece("\u202e\u200b"), "‹U+202E›‹U+200B›");
  EXPECT_EQ(visible_piece(""), "∅");
  EXPECT_EQ(visible_piece("ääää", 3), "äää…");
}

TEST(TextTokens, IdsWithoutText) {
  EXPECT_EQ(visible_token(nullptr, 17), "#17");
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(visible_token(bytes.get(), 'a'), "a");
  EXPECT_EQ(visible_token(bytes.get(), 5000), "#5000");
  EXPECT_EQ(visible_token(bytes.get(), -1), "#-1");
}

class Passages : public LanguageFiles {
 protected:
  const LanguageInfo& info() const { return language_.info; }  // bytes, block 12
};

TEST_F(Passages, EndAtTheLimitAndAtTheBlock) {
  const auto whole = passage_of_text(info(), "a b", "--text", 100);
  EXPECT_EQ(whole.tokens, (std::vector<std::string>{"a", "·", "b"}));
  EXPECT_TRUE(whole.notes.empty());
  const auto limited = passage_of_text(info(), "abcdef", "--text", 4);
  EXPECT_EQ(limited.ids.size(), 4u);
  ASSERT_EQ(limited.notes.size(), 1u);
  EXPECT_EQ(limited.notes[0], "The text is longer; its first 4 tokens are shown.");
  EXPECT_EQ(passage_of_text(info(), "abcdef", "--text", 1).notes.at(0),
            "The text is longer; its first token is shown.");
  const auto block = passage_of_text(info(), std::string(30, 'x'), "--text", 100);
  EXPECT_EQ(block.ids.size(), 12u);
  EXPECT_NE(block.notes[0].find("the block that the model has positions for"), std::string::npos);
  EXPECT_EQ(passage_of_text(info(), "x", "--text", 100).ids.size(), 1u);
}

TEST_F(Passages, OfFilesThatAreLongOrBinary) {
  const auto long_file = write("a.txt", std::string(600'000, 'y'));
  EXPECT_EQ(passage_of_file(info(), long_file, 10).ids.size(), 10u);
  const auto ids = write("a.bin", std::string("\x41\0\x42\0", 4));
  EXPECT_EQ(passage_of_file(info(), ids, 10).tokens, (std::vector<std::string>{"A", "B"}));
  LanguageInfo bare = info();
  bare.tokenizer = nullptr;
  EXPECT_EQ(passage_of_file(bare, ids, 10).tokens, (std::vector<std::string>{"#65", "#66"}));
}

TEST_F(Passages, RefuseWhatCannotBeRead) {
  using testing::refusal;
  const auto text = [&](const LanguageInfo& info, const char* t, int64_t most) {
    return [&info, t, most] { passage_of_text(info, t, "--text", most); };
  };
  EXPECT_EQ(refusal(text(info(), "", 9), ErrorKind::kUsage),
            "--text is empty; a passage of at least one token is needed.");
  refusal(text(info(), "a", 0), ErrorKind::kUsage);
  refusal([&] { passage_of_file(info(), "absent.txt", 9); });
  testing::expect_part(refusal([&] { passage_of_file(info(), ".", 9); }),
                       "is a folder; a file is expected");
  LanguageInfo bare = info();
  bare.tokenizer = nullptr;
  testing::expect_part(refusal(text(bare, "a", 9)), "no tokenizer");
  const TokenSource outside(std::vector<int32_t>{1, 300}, "it");
  testing::expect_part(refusal([&] { passage_of_tokens(info(), outside, "it", 9); }),
                       "Token id 300");
  LanguageInfo letters = info();
  CharSet set;
  set.add("ab", "it");
  letters.tokenizer = set.tokenizer();
  testing::expect_part(refusal(text(letters, "abc", 9)), "--text cannot be read");
}

}  // namespace
}  // namespace tost
