// The tokens that models are scored on.
#include <gtest/gtest.h>

#include "tost/engine/language_text.h"
#include "tost/kinds/language/eval_test_util.h"

namespace tost {
namespace {

using testing::expect_part;
using testing::Ids;
using testing::LanguageFiles;
using testing::refusal;

Ids ids_of(const LanguageText& text) {
  Ids ids(static_cast<size_t>(text.tokens->size()));
  text.tokens->copy(0, text.tokens->size(), ids.data());
  return ids;
}

TEST_F(LanguageFiles, RowsEndInAnEndOfText) {
  const std::string path = write("a.txt", "ab\n \nc");
  LanguageText text = load_language_text({.path = path, .rows = true}, language_.info);
  EXPECT_EQ(ids_of(text), (Ids{'a', 'b', '\n', 256, 256, 'c', 256}));
  EXPECT_EQ(text.split, "whole");
  EXPECT_EQ(text.bytes, 4);
  text = load_language_text({.path = path}, language_.info);
  EXPECT_EQ(ids_of(text), (Ids{'a', 'b', '\n', ' ', '\n', 'c'}));
  EXPECT_EQ(text.bytes, 6);
  const std::string rows = write("b.jsonl", "{\"text\": \"a\\nb\"}\n\n{\"text\": \"\"}\n");
  for (const bool official : {false, true}) {
    text = load_language_text({.path = rows, .rows = official}, language_.info);
    EXPECT_EQ(ids_of(text), (Ids{'a', '\n', 'b', 256, 256}));
  }
}

TEST_F(LanguageFiles, TheTestSplitComesFirst) {
  write("c/train.txt", "train");
  write("c/valid.txt", "v");
  const auto split = [&](const std::string& name) {
    return load_language_text({.path = (dir_.path() / "c").string(), .split = name},
                              language_.info);
  };
  EXPECT_EQ(split("").split, "validation");
  write("c/test.txt", "test");
  EXPECT_EQ(split("").split, "test");
  EXPECT_EQ(split("").tokens->size(), 4);
  EXPECT_EQ(split("val").tokens->size(), 1);
  expect_part(refusal([&] { split("whole"); }), "not one file");
}

// What a model was trained on is not scored unasked.
TEST_F(LanguageFiles, OfItsOwnTrainingTextAModelIsScoredOnWhatWasHeldBack) {
  const std::string path = write("one.txt", "0123456789"), other = write("other.txt", "0123456789");
  const std::string in_folder = write("set/input.txt", "0123456789");
  LanguageInfo info = language_.info;
  EXPECT_EQ(load_language_text({.path = path}, info).split, "whole");
  info.training = {{"data", "set"}};
  EXPECT_EQ(load_language_text({.path = in_folder}, info).split, "validation");
  info.training = {{"data", "one.txt"}};
  EXPECT_EQ(load_language_text({.path = in_folder}, info).split, "whole");
  EXPECT_EQ(load_language_text({.path = other}, info).split, "whole");
  LanguageText text = load_language_text({.path = path}, info);
  EXPECT_EQ(text.split, "validation");
  EXPECT_EQ(ids_of(text), Ids{'9'});
  text = load_language_text({.path = path, .holdout = 0.2}, info);
  EXPECT_EQ(ids_of(text), (Ids{'8', '9'}));
  EXPECT_EQ(load_language_text({.path = path, .split = "whole"}, info).tokens->size(), 10);
  EXPECT_EQ(load_language_text({.path = path, .holdout = 0}, info).split, "whole");
}

TEST_F(LanguageFiles, RefusesTextTheModelCannotRead) {
  const std::string path = write("d.txt", "abc");
  LanguageInfo info = language_.info;
  CharSet ab;
  ab.add("ab", "it");
  info.tokenizer = ab.tokenizer();
  expect_part(refusal([&] { load_language_text({.path = path}, info); }), "'c' (U+0063) at byte 2");
  expect_part(
      refusal([&] { load_language_text({.path = path, .rows = true}, info); }, ErrorKind::kUsage),
      "chars tokenizer lacks");
  info.tokenizer = nullptr;
  expect_part(refusal([&] { load_language_text({.path = path}, info); }), "has no tokenizer");
  const std::string tokens = write("e.bin", "\x01\x02");
  EXPECT_EQ(ids_of(load_language_text({.path = tokens}, info)), Ids{513});
  const auto rows = [&](const std::string& content) {
    const std::string file = write("f.jsonl", content);
    return refusal([&] { load_language_text({.path = file}, language_.info); });
  };
  expect_part(rows(""), "has no rows");
  expect_part(rows("{\"text\": \"a\"}\n[]"), "f.jsonl' line 2 is not a JSON object");
  expect_part(rows("{\"text\": \"a\"}\n{\"text\": 5}"), "line 2 lacks \"text\"");
  expect_part(rows("\xFF\xFE"), "line 1 is not JSON at byte 1");
  expect_part(rows("{\"text\": " + std::string(100'000, '[')), "line 1 is nested deeper than 64");
}

}  // namespace
}  // namespace tost
