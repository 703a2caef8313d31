// GPT-2's BPE against reference encodings, and on hostile text and files.
#include "tost/io/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/random.h"
#include "tost/base/utf8.h"
#include "tost/io/safe_text.h"
#include "tost/io/token_test_util.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace bpe_test {

using nlohmann::json;
using testing::expect_part;
using testing::refusal;
using Ids = std::vector<int32_t>;

std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

// The definition, without a heap: look at all pairs, join the lowest, leftmost.
Ids slow_encode(const BpeTable& table, const std::string& piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    int32_t best = -1;
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t id = table.id(parts[i] + parts[i + 1]);
      if (id >= 0 && (best < 0 || id < best)) {
        best = id;
        place = i;
      }
    }
    if (best < 0) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(place) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(table.id(part));
  return ids;
}

TEST(Bpe, JoinsAsTheDefinitionSays) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    auto tokens = byte_tokens();
    // Joins of earlier tokens over four letters; some of them can never be reached.
    for (int64_t tries = random.below(60); tries > 0; --tries) {
      const auto part = [&] {
        const int64_t grown = static_cast<int64_t>(tokens.size()) - 256;
        const int64_t pick = random.below(4 + grown);
        return tokens[static_cast<size_t>(pick < 4 ? 'a' + pick : 252 + pick)];
      };
      const std::string joined = part() + part();
      if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) tokens.push_back(joined);
    }
    const BpeTable table(tokens, "it");
    std::string piece;
    for (int64_t n = 1 + random.below(200); n > 0; --n) {
      piece.push_back(static_cast<char>('a' + random.below(4)));
    }
    Ids ids;
    table.encode(piece, ids);
    ASSERT_EQ(ids, table.id(piece) < 0 ? slow_encode(table, piece) : Ids{table.id(piece)}) << piece;
  }
}

TEST(Bpe, RefusesBadTables) {
  const auto table = [](std::vector<std::string> tokens) {
    return refusal([&] { BpeTable(std::move(tokens), "x.tiktoken"); });
  };
  auto tokens = byte_tokens();
  tokens.pop_back();
  expect_part(table(tokens), "x.tiktoken has no token for the byte 255");
  tokens.emplace_back("a");
  expect_part(table(tokens), "tokens 97 and 255 are the same");
  tokens.back() = "";
  expect_part(table(tokens), "token 255 has 0 bytes");
  tokens.back() = std::string(5000, 'a');
  expect_part(table(tokens), "token 255 has 5000 bytes");
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  Gpt2Splitter().split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(Gpt2Splitter, CutsAsThePatternSays) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(split(""), Pieces{});
  EXPECT_EQ(split("We'll  pay 30€, they've won't"),
            (Pieces{"We", "'ll", " ", " pay", " 30", "€,", " they", "'ve", " won", "'t"}));
  EXPECT_EQ(split("IT'S a\n\n  b \n"), (Pieces{"IT", "'", "S", " a", "\n\n ", " b", " \n"}));
  EXPECT_EQ(split("x\u00A0y\u1680z"), (Pieces{"x", "\u00A0", "y", "\u1680", "z"}));
  // Not white space: U+180E, zero width space.
  EXPECT_EQ(split("a\u180E\u200B"), (Pieces{"a", "\u180E\u200B"}));
  // Letters and numbers of Unicode 15 and 16, which older tables do not have.
  EXPECT_EQ(split("a\U00031350\U00010D4A 1\U0001D2C0!"),
            (Pieces{"a\U00031350\U00010D4A", " 1\U0001D2C0", "!"}));
}

TEST(Gpt2Splitter, BytesThatAreNoTextArePiecesOfTheirOwn) {
  EXPECT_EQ(split("ab\xFF\xFE cd \x80"),
            (std::vector<std::string>{"ab", "\xFF\xFE", " cd", " ", "\x80"}));
  EXPECT_EQ(split("\xE2\x82"), std::vector<std::string>{"\xE2\x82"});
}

TEST(Gpt2Splitter, LongRunsAreOnePiece) {
  std::string spaces;
  for (int i = 0; i < 200'000; ++i) spaces += "\u3000";
  for (const std::string& run :
       {std::string(1'000'000, 'a'), std::string(1'000'000, '!'), spaces}) {
    int64_t pieces = 0;
    Gpt2Splitter().split(run, [&](std::string_view piece) {
      EXPECT_EQ(piece.size(), run.size());
      ++pieces;
    });
    EXPECT_EQ(pieces, 1);
  }
}

TEST(Base64, IsStrict) {
  for (const std::string text : {"a", "ab", "abc", "abcd", "\xFF\x00\xFE"}) {
    EXPECT_EQ(from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("Man"), "TWFu");
  EXPECT_EQ(to_base64("Ma"), "TWE=");
  for (const char* bad : {"TWE", "TW=E", "TWF=", "T===", "====", "TW E", "TWE=TWE=", "TW\n="}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

class Gpt2 : public ::testing::Test {
 protected:
  void SetUp() override {
    TOST_SHARED_OR_SKIP(folder, "data/gpt2-bpe");
    folder_ = folder;
    tokenizer_ = load_gpt2_tokenizer(folder.string());
  }
  void expect_roundtrip(const std::string& text) const {
    ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text);
  }

  std::filesystem::path folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Gpt2, BothFormsOfTheVocabularyAgree) {
  const auto ranks = load_gpt2_tokenizer((folder_ / "r50k_base.tiktoken").string());
  EXPECT_EQ(tokenizer_->vocab_size(), 50'257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50'256);
  EXPECT_EQ(tokenizer_->piece(50'256), "<|endoftext|>");
  EXPECT_EQ(ranks->to_json(), tokenizer_->to_json());
  const auto again = tokenizer_from_json(json::parse(ranks->to_json().dump()), "it");
  EXPECT_EQ(again->to_json(), tokenizer_->to_json());
}

TEST_F(Gpt2, GivesTheReferenceIds) {
  std::ifstream lines(folder_ / "reference.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json row = json::parse(line);
    const auto text = row["text"].get<std::string>();
    EXPECT_EQ(tokenizer_->encode(text), row["ids"].get<Ids>()) << line;
    EXPECT_EQ(tokenizer_->decode(row["ids"].get<Ids>()), text);
  }
  EXPECT_EQ(count, 36);
}

// Every id is compared by tests/python/test_tokens.py.
TEST_F(Gpt2, WholeFilesHaveTheReferenceNumberOfTokensSlow) {
  std::ifstream rows(folder_ / "reference-files.tsv");
  std::string line;
  std::getline(rows, line);
  int files = 0;
  for (std::string name, sha; rows >> name; ++files) {
    int64_t bytes = 0, tokens = 0;
    rows >> bytes >> tokens >> sha;
    const std::string text = read_file(folder_.parent_path() / name, bytes);
    const Ids ids = tokenizer_->encode(text);
    EXPECT_EQ(static_cast<int64_t>(ids.size()), tokens) << name;
    EXPECT_EQ(tokenizer_->decode(ids), text) << name;
  }
  EXPECT_EQ(files, 5);
}

TEST_F(Gpt2, KeepsAnyBytes) {
  Random random(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::string text;
    for (int64_t n = random.below(80); n > 0; --n) {
      // Bytes, characters of every length, runs of spaces.
      const int64_t kind = random.below(4);
      if (kind == 0) text.push_back(static_cast<char>(random.below(256)));
      if (kind == 1) append_utf8(text, static_cast<uint32_t>(random.below(0xD800)));
      if (kind == 2) append_utf8(text, 0xE000 + static_cast<uint32_t>(random.below(0x102000)));
      if (kind == 3) text.append(static_cast<size_t>(random.below(4)), ' ');
    }
    expect_roundtrip(text);
  }
}

TEST_F(Gpt2, LongRunsAreNoDangerSlow) {
  const size_t size = size_t{1} << 20;
  Random random(3);
  std::string letters;
  while (letters.size() < size) letters.push_back(static_cast<char>('a' + random.below(26)));
  expect_roundtrip(letters);
  for (const char c : {'a', ' ', '\n', '=', '\xFF', '1'}) {
    expect_roundtrip(std::string(size, c));
    expect_roundtrip(std::string(size, c) + "x");
  }
  std::string euros;
  while (euros.size() < size) euros += "€";
  expect_roundtrip(euros);
}

class Gpt2Files : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(dir_.path() / name, std::ios::binary) << bytes;
    return (dir_.path() / name).string();
  }
  std::string refused(const std::filesystem::path& path) const {
    const std::string message = refusal([&] { load_gpt2_tokenizer(path.string()); });
    expect_part(message, dir_.path().string());
    return message;
  }

  testing::TempDir dir_;
};

TEST_F(Gpt2Files, RefusesBadRanks) {
  expect_part(refused(dir_.path() / "absent"), "absent");
  expect_part(refused(dir_.path()), "neither vocab.bpe");
  expect_part(refused(write("a", "")), "gives 0 tokens where GPT-2 has 50256");
  expect_part(refused(write("b", "IQ== 0\nIg== 2\n")), "line 2 is not base64, a space and 1");
  expect_part(refused(write("c", "IQ= 0\n")), "line 1");
  expect_part(refused(write("d", "IQ==\n")), "line 1");
  expect_part(refused(write("e", " 0\n")), "line 1");
  expect_part(refused(write("f", "IQ== 0\r\nIg== 1\r\n\r\n")), "gives 2 tokens");
}

TEST_F(Gpt2Files, RefusesBadMerges) {
  write("encoder.json", "{}");
  write("vocab.bpe", "a b\n");
  expect_part(refused(dir_.path()), "does not begin with '#version: 0.2'");
  write("vocab.bpe", "#version: 0.2\na b\nc\n");
  expect_part(refused(dir_.path()), "line 3 is not two tokens");
  write("vocab.bpe", "#version: 0.2\na b\n \n");
  expect_part(refused(dir_.path()), "line 3 is not two tokens");
  write("vocab.bpe", "#version: 0.2\na \xE2\x82\xAC\n");
  expect_part(refused(dir_.path()), "line 2 is not two tokens");
  write("vocab.bpe", "#version: 0.2\na b\n");
  expect_part(refused(dir_.path()), "gives 257 tokens");
}

TEST_F(Gpt2Files, RefusesAnEncoderOfAnotherVocabulary) {
  TOST_SHARED_OR_SKIP(folder, "data/gpt2-bpe");
  write("vocab.bpe", read_file(folder / "vocab.bpe", 1 << 20));
  json encoder = json::parse(read_file(folder / "encoder.json", 2 << 20));
  std::swap(encoder["the"], encoder["and"]);
  write("encoder.json", encoder.dump());
  expect_part(refused(dir_.path()), "'and' the id");
  std::swap(encoder["the"], encoder["and"]);
  encoder["the"] = 1e30;
  write("encoder.json", encoder.dump());
  expect_part(refused(dir_.path()), "'the' the id 1e+30");
  encoder.erase("the");
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  write("encoder.json", "{\"the\":" + nested + "," + encoder.dump().substr(1));
  expect_part(refused(dir_.path()), "encoder.json' is nested deeper than 64 levels");
  write("encoder.json", encoder.dump());
  expect_part(refused(dir_.path()), "50256 entries");
  write("encoder.json", "[");
  expect_part(refused(dir_.path()), "is not JSON at byte 2");
  write("encoder.json", "[]");
  expect_part(refused(dir_.path()), "not a JSON object");
}

}  // namespace bpe_test
}  // namespace tost
