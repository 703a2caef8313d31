// Bytes, characters and words, and the JSON of all tokenizers.
#include <gtest/gtest.h>

#include "tost/io/token_test_util.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace tokenizer_test {

using nlohmann::json;
using testing::expect_part;
using testing::refusal;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> chars_of(std::string_view text) {
  CharSet set;
  set.add(text, "the text");
  return set.tokenizer();
}

std::string all_bytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  return text;
}

TEST(ByteTokenizer, TakesEverything) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(bytes->vocab_size(), 257);
  EXPECT_EQ(bytes->end_of_text(), 256);
  EXPECT_EQ(bytes->encode("A\n\xFF"), (Ids{65, 10, 255}));
  EXPECT_EQ(bytes->decode(bytes->encode(all_bytes())), all_bytes());
  EXPECT_EQ(bytes->piece(256), "<|endoftext|>");
  EXPECT_EQ(bytes->encode("<|endoftext|>").size(), 13u);
}

TEST(CharTokenizer, NumbersCharactersByCodePoint) {
  const auto chars = chars_of("cab\n€cab😀");
  EXPECT_EQ(chars->vocab_size(), 6);
  EXPECT_EQ(chars->end_of_text(), -1);
  EXPECT_EQ(chars->encode("abc\n😀€"), (Ids{1, 2, 3, 0, 5, 4}));
  EXPECT_EQ(chars->decode({5, 4, 0}), "😀€\n");
}

TEST(CharTokenizer, NamesWhatItCannotExpress) {
  const auto chars = chars_of("ab€");
  expect_part(refusal([&] { chars->encode("a€c"); }), "'c' (U+0063) at byte 4");
  expect_part(refusal([&] { chars->encode("a\x1B"); }), "U+001B at byte 1");
  expect_part(refusal([&] { chars->encode("ab\xE2\x82"); }), "not valid UTF-8 at byte 2");
  expect_part(refusal([] { chars_of("ab\xFF"); }), "the text is not valid UTF-8 at byte 2");
  expect_part(refusal([] { chars_of(""); }), "needs a text");
}

TEST(WordTokenizer, KeepsTheMostFrequent) {
  // d 3 times; b, c twice; a, "e" once: ties in the order of bytes.
  const std::string text = "d b c d\n a\td c  b e\r\n";
  const auto words = make_word_tokenizer(text, 6, "the text");
  EXPECT_EQ(words->vocab_size(), 6);
  EXPECT_EQ(words->encode(text), (Ids{2, 3, 4, 2, 1, 5, 2, 4, 3, 0, 1}));
  EXPECT_EQ(words->decode({2, 3, 1, 0}), " d b\n <unk>");
  EXPECT_EQ(make_word_tokenizer(text, 100, "the text")->vocab_size(), 7);
  // Names of special tokens in the text are unknown words, as <unk> is.
  EXPECT_EQ(words->encode("<unk> <eos>\xFF"), (Ids{0, 0}));
  EXPECT_EQ(words->encode(""), Ids{});
}

TEST(WordTokenizer, SpecialWordsAreNotCounted) {
  const auto words = make_word_tokenizer("<unk> <unk> <eos> x", 10, "the text");
  EXPECT_EQ(words->vocab_size(), 3);
}

TEST(WordTokenizer, RefusesImpossibleRequests) {
  const auto make = [](const char* text, int64_t size) {
    return [=] { make_word_tokenizer(text, size, "the text"); };
  };
  expect_part(refusal(make("a", 2), ErrorKind::kUsage), "3 to");
  expect_part(refusal(make("a", -1), ErrorKind::kUsage), "3 to");
  expect_part(refusal(make("a", int64_t{1} << 40), ErrorKind::kUsage), "3 to");
  expect_part(refusal(make(" \n <unk>", 10)), "the text has no words");
  expect_part(refusal(make("a \xC3", 10)), "not valid UTF-8 at byte 2");
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  for (const auto& tokenizer :
       {make_byte_tokenizer(), chars_of("ab"), make_word_tokenizer("a b", 9, "it")}) {
    const auto size = static_cast<int32_t>(tokenizer->vocab_size());
    for (const int32_t id : {-1, size, size + 1}) {
      expect_part(refusal([&] { tokenizer->piece(id); }), cat("Token ", id, " is outside"));
      expect_part(refusal([&] { tokenizer->decode({0, id}); }), "outside the vocabulary");
    }
  }
}

TEST(TokenizerJson, ComesBackTheSame) {
  for (const auto& tokenizer : {make_byte_tokenizer(), chars_of(std::string("a\0b€😀", 11)),
                                make_word_tokenizer("the cat the € dog", 5, "it")}) {
    const auto again = tokenizer_from_json(json::parse(tokenizer->to_json().dump()), "it");
    EXPECT_EQ(again->kind(), tokenizer->kind());
    EXPECT_EQ(again->to_json(), tokenizer->to_json());
    EXPECT_EQ(again->end_of_text(), tokenizer->end_of_text());
    ASSERT_EQ(again->vocab_size(), tokenizer->vocab_size());
    for (int32_t id = 0; id < again->vocab_size(); ++id) {
      EXPECT_EQ(again->piece(id), tokenizer->piece(id));
    }
  }
}

TEST(TokenizerJson, RefusesEverythingElse) {
  const auto expect = [](const json& object, const std::string& part) {
    const std::string message = refusal([&] { tokenizer_from_json(object, "model.x"); });
    expect_part(message, "model.x");
    expect_part(message, part);
  };
  expect(json(), "JSON object");
  expect(json::array(), "JSON object");
  expect(json::object(), "\"kind\"");
  expect({{"kind", 3}}, "\"kind\"");
  expect({{"kind", "char"}}, "Did you mean 'chars'?");
  expect({{"kind", "bytes"}, {"tokens", ""}}, "has no 'tokens'");
  expect({{"kind", "chars"}}, "lacks \"characters\"");
  expect({{"kind", "chars"}, {"characters", 5}}, "a string");
  expect({{"kind", "chars"}, {"characters", ""}}, "empty");
  expect({{"kind", "chars"}, {"characters", "ba"}}, "not sorted");
  expect({{"kind", "chars"}, {"characters", "aa"}}, "not sorted");
  expect({{"kind", "chars"}, {"characters", "a\xFF"}}, "UTF-8 at byte 1");
  const auto words = [](json list) { return json{{"kind", "words"}, {"words", std::move(list)}}; };
  expect(words("a"), "a list");
  expect(words({"<unk>", "<eos>"}), "3 to");
  expect(words({"<eos>", "<unk>", "a"}), "word 0 is not <unk>");
  expect(words({"<unk>", "a", "b"}), "word 1 is not <eos>");
  expect(words({"<unk>", "<eos>", "a", "a"}), "word 3 is there twice");
  expect(words({"<unk>", "<eos>", ""}), "word 2 is not a word");
  expect(words({"<unk>", "<eos>", "a b"}), "word 2 is not a word");
  expect(words({"<unk>", "<eos>", "<unk>"}), "word 2 is not a word");
  expect(words({"<unk>", "<eos>", "\x80"}), "word 2 is not a word");
  expect(words({"<unk>", "<eos>", 7}), "word 2 is not a string");
  const auto bpe = [](json list) { return json{{"kind", "gpt2"}, {"tokens", std::move(list)}}; };
  expect(bpe(json::array()), "a string");
  expect(bpe(""), "token 0 is not base64");
  expect(bpe("YQ== YQ="), "token 1 is not base64");
  expect(bpe("YQ==  Yg=="), "token 1 is not base64");
  expect(bpe("YQ== YQ=="), "tokens 0 and 1 are the same");
  expect(bpe("YQ== Yg=="), "no token for the byte 0");
}

}  // namespace tokenizer_test
}  // namespace tost
