#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tost/engine/language_text.h"
#include "tost/kinds/language/eval_test_util.h"
#include "tost/kinds/language/file.h"

namespace tost {
namespace {

using testing::data_error_of;
using testing::expect_part;
using testing::LanguageFiles;
using testing::usage_error_of;

class ChosenTokenizer : public LanguageFiles {
 protected:
  // A model without a tokenizer that was told to use one.
  LoadedLanguage chosen(const std::string& name, const std::string& data = "") {
    LoadedLanguage language = language_;
    language.info.tokenizer = nullptr;
    choose_tokenizer({.name = name, .data = data}, language.info, "the file");
    return language;
  }
  std::string kind(const std::string& name, const std::string& data = "") {
    const auto language = chosen(name, data);
    return language.info.tokenizer == nullptr ? "" : language.info.tokenizer->kind();
  }
};

TEST_F(ChosenTokenizer, IsThatOfTheName) {
  const std::string text = write("a.txt", "ab ba ab");
  EXPECT_EQ(kind(""), "");
  EXPECT_EQ(kind("auto", text), "");  // a guess would be another model's
  EXPECT_EQ(kind("bytes"), "bytes");
  EXPECT_EQ(kind("chars", text), "chars");
  EXPECT_EQ(chosen("chars", text).info.tokenizer->vocab_size(), 3);
  EXPECT_EQ(kind("words:4", text), "words");
  const auto chars = chosen("chars", text).info.tokenizer;
  const std::string file = write("tokenizer.json", chars->to_json().dump());
  EXPECT_EQ(chosen("file:" + file).info.tokenizer->to_json(), chars->to_json());
}

TEST_F(ChosenTokenizer, RefusesWhatCannotBe) {
  const auto refused = [&](const std::string& name, const std::string& data = "") {
    return usage_error_of([&] { chosen(name, data); });
  };
  expect_part(refused("charz"), "Did you mean 'chars'?");
  expect_part(refused("chars"), "is made from a text");
  expect_part(refused("words:9", write("b.bin", "abab")), "is made from a text");
  expect_part(refused("file:"), "needs a file");
  expect_part(refused("gpt2:"), "lacks the folder");
  expect_part(data_error_of([&] { chosen("file:" + (dir_.path() / "none.json").string()); }),
              "none.json");
  std::string many;
  for (int i = 0; i < 400; ++i) many += cat("w", i, " ");
  expect_part(refused("words:300", write("c.txt", many)), "300 tokens but the model of");
}

TEST_F(ChosenTokenizer, IsNoOtherThanTheModelsOwn) {
  LoadedLanguage language = language_;
  for (const char* same : {"", "auto", "bytes"})
    choose_tokenizer({.name = same}, language.info, "it");
  expect_part(usage_error_of([&] { choose_tokenizer({.name = "gpt2"}, language.info, "it"); }),
              "was trained with tokenizer bytes and cannot continue with gpt2");
  EXPECT_EQ(&needed_tokenizer(language.info, "x"), language_.info.tokenizer.get());
  language.info.tokenizer = nullptr;
  expect_part(data_error_of([&] { needed_tokenizer(language.info, "it cannot speak"); }),
              "so that it cannot speak; name the one");
}

}  // namespace
}  // namespace tost
