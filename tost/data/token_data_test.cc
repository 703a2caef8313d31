// Texts and token files opened, cropped, written out, and refused.
#include "tost/io/token_data.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/random.h"
#include "tost/data/crop_batch.h"
#include "tost/data/export.h"
#include "tost/io/text_layout.h"
#include "tost/io/token_test_util.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::expect_part;
using testing::refusal;

std::string text_of(const TokenSource& source, const Tokenizer& tokenizer) {
  std::string text;
  for (int64_t i = 0; i < source.size(); ++i) text += tokenizer.piece(source.at(i));
  return text;
}

class TokenData : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = dir_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  std::string folder(const std::string& name) const { return (dir_.path() / name).string(); }
  TextData open(const std::string& path, const std::string& tokenizer = "auto",
                double holdout = 0.1) const {
    return open_text({.path = path, .tokenizer = tokenizer, .holdout = holdout});
  }
  // Writes `name` as token files and gives the folder.
  std::string exported(const std::string& name, const std::string& tokenizer,
                       TokenFormat format = TokenFormat::kNanoGpt) const {
    const std::string out = folder(name + "-" + tokenizer.substr(0, 5) + "-tokens");
    TokenExportOptions options;
    options.format = format;
    export_tokens({.path = folder(name), .tokenizer = tokenizer}, out, options);
    return out;
  }

  testing::TempDir dir_;
};

TEST_F(TokenData, InputTxtIsCutByCharacters) {
  write("a/input.txt", "äbcdeäbcdé");
  write("a/README.md", "not text");
  const TextData data = open(folder("a"));
  EXPECT_EQ(data.tokenizer->kind(), "chars");
  EXPECT_EQ(data.vocab_size, 6);
  EXPECT_EQ(text_of(*data.train, *data.tokenizer), "äbcdeäbcd");
  EXPECT_EQ(text_of(*data.validation, *data.tokenizer), "é");
  EXPECT_EQ(data.validation_bytes, 2);
  EXPECT_EQ(data.test, nullptr);
  const TextData bytes = open(folder("a"), "bytes", 0.5);
  EXPECT_EQ(text_of(*bytes.validation, *bytes.tokenizer), "äbcdé");
  EXPECT_EQ(open(folder("a"), "auto", 0).validation, nullptr);
  EXPECT_EQ(open(folder("a"), "auto", 0.01).validation->size(), 1);
}

TEST_F(TokenData, FilesOfSplitsAreRead) {
  for (const char* validation : {"val", "valid", "validation"}) {
    const std::string name = std::string("b-") + validation;
    write(name + "/train.txt", "the cat the dog\n");
    write(name + "/" + validation + ".txt", "the \xFF bird\n");
    write(name + "/test.txt", "cat\n");
    const TextData data = open(folder(name));
    EXPECT_EQ(data.tokenizer->kind(), "bytes");
    EXPECT_EQ(data.train->size(), 16);
    EXPECT_EQ(data.validation_bytes, 11);
    EXPECT_EQ(data.test_bytes, 4);
    const TextData words = open(folder(name), "words:4");
    EXPECT_EQ(words.vocab_size, 4);
    EXPECT_EQ(text_of(*words.validation, *words.tokenizer), " the <unk> <unk>\n");
    EXPECT_EQ(words.validation_bytes, 11);
  }
}

TEST_F(TokenData, TheModelsTokenizerComesFirst) {
  write("c/input.txt", "abcabcabca");
  const auto known = make_byte_tokenizer();
  const TextData data = open_text({.path = folder("c"), .tokenizer = "chars"}, known);
  EXPECT_EQ(data.tokenizer, known);
  EXPECT_EQ(data.train->at(0), 'a');
  CharSet ab;
  ab.add("ab", "it");
  const std::string message = refusal([&] { open_text({.path = folder("c")}, ab.tokenizer()); });
  expect_part(message, "input.txt' (train): The character 'c' (U+0063) at byte 2");
}

TEST_F(TokenData, TokenFilesComeBack) {
  write("d/train.txt", "the cat the dog\n");
  write("d/val.txt", "a cat\n");
  for (const char* tokenizer : {"chars", "bytes", "words:5"}) {
    for (const TokenFormat format : {TokenFormat::kNanoGpt, TokenFormat::kLlmC}) {
      const std::string out = exported("d", tokenizer, format);
      const TextData text = open(folder("d"), tokenizer), files = open(out);
      ASSERT_TRUE(files.tokenizer);
      EXPECT_EQ(files.tokenizer->to_json(), text.tokenizer->to_json());
      EXPECT_EQ(files.vocab_size, text.vocab_size);
      EXPECT_EQ(text_of(*files.train, *files.tokenizer), text_of(*text.train, *text.tokenizer));
      EXPECT_EQ(files.validation->size(), text.validation->size());
      EXPECT_EQ(files.test, nullptr);
      // Words lose their white space.
      EXPECT_EQ(files.validation_bytes, tokenizer == std::string("words:5") ? 0 : 6);
      fs::remove_all(out);
    }
  }
}

TEST_F(TokenData, TokenFilesWithoutAVocabulary) {
  write("e/train.bin", std::string("\x01\x00\x07\x00\x03\x00", 6));
  write("e/val.bin", std::string("\x09\x00", 2));
  const TextData data = open(folder("e"));
  EXPECT_EQ(data.tokenizer, nullptr);
  EXPECT_EQ(data.vocab_size, 10);
  EXPECT_EQ(data.validation_bytes, 0);
  EXPECT_EQ(data.train->at(1), 7);
  // A single file: its last third is held out.
  const TextData one = open(folder("e/train.bin"), "auto", 0.34);
  EXPECT_EQ(one.train->size(), 1);
  EXPECT_EQ(one.validation->size(), 2);
  EXPECT_EQ(one.validation->at(0), 7);
  TokenFileWriter llmc(folder("f.bin"), TokenFormat::kLlmC);
  llmc.add({1, 2, 3});
  llmc.finish();
  EXPECT_EQ(open(folder("f.bin")).vocab_size, 50'257);
}

TEST_F(TokenData, RefusesTokensOfAnotherTokenizer) {
  write("g/input.txt", "abcabcabca");
  const std::string out = exported("g", "chars");
  expect_part(refusal([&] { open_text({.path = out}, make_byte_tokenizer()); }),
              "made with another tokenizer than the model's");
  fs::remove(fs::path(out) / "tokenizer.json");
  CharSet ab;
  ab.add("ab", "it");
  expect_part(refusal([&] { open_text({.path = out}, ab.tokenizer()); }),
              "the token 2 at place 2, outside the vocabulary of 2");
  expect_part(refusal([&] { open(out, "words:9"); }, ErrorKind::kUsage), "holds tokens, not text");
  std::ofstream(fs::path(out) / "tokenizer.json") << "{";
  expect_part(refusal([&] { open(out); }), "tokenizer.json' is not JSON");
  std::ofstream(fs::path(out) / "tokenizer.json") << std::string(100'000, '[');
  expect_part(refusal([&] { open(out); }), "tokenizer.json' is nested deeper than 64 levels");
}

TEST_F(TokenData, RefusesWhatIsNotThere) {
  const auto data_error = [&](const std::string& path) { return refusal([&] { open(path); }); };
  expect_part(data_error(folder("absent")), "does not exist");
  fs::create_directories(folder("h"));
  expect_part(data_error(folder("h")), "holds no text");
  write("h/train.txt", "");
  expect_part(data_error(folder("h")), "its files are empty");
  write("h/val.txt", "a");
  write("h/valid.txt", "a");
  expect_part(data_error(folder("h")), "two validation files");
  write("i.bin", "abc");
  expect_part(data_error(folder("i.bin")), "odd number");
  expect_part(data_error("/dev/null"), "is not a plain file but a device");
}

TEST_F(TokenData, RefusesWrongSettings) {
  const std::string path = write("j.txt", "some text");
  const auto usage = [&](const std::string& tokenizer, double holdout) {
    return refusal([&] { open(path, tokenizer, holdout); }, ErrorKind::kUsage);
  };
  expect_part(usage("byte", 0.1), "Did you mean 'bytes'?");
  expect_part(usage("bytes:3", 0.1), "Unknown tokenizer 'bytes:3'");
  for (const char* words : {"words", "words:", "words:x", "words:10x", "words:2", "words:-1"}) {
    expect_part(usage(words, 0.1), "words:8192");
  }
  expect_part(usage("words:99999999999999999999", 0.1), "words:8192");
  expect_part(usage("gpt2:", 0.1), "after the colon");
  for (const double holdout : {-0.1, 1.0, 2.0, std::nan("")}) {
    expect_part(usage("bytes", holdout), "held-out share");
  }
}

TEST_F(TokenData, FindsGpt2NextToTheData) {
  write("k/input.txt", "hello world");
  ::unsetenv("TOST_GPT2");
  expect_part(refusal([&] { open(folder("k"), "gpt2"); }, ErrorKind::kUsage), "gpt2:FOLDER");
  TOST_SHARED_OR_SKIP(vocabulary, "data/gpt2-bpe");
  fs::create_directory_symlink(vocabulary, folder("gpt2-bpe"));
  const TextData data = open(folder("k"), "gpt2", 0);
  EXPECT_EQ(data.vocab_size, 50'257);
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_EQ(open(folder("k"), "gpt2:" + vocabulary.string(), 0).train->at(0), 31373);
}

TEST_F(TokenData, SplitsAreFoundByName) {
  const TextLayout layout = find_text(write("l.txt", "0123456789"), 0.1);
  EXPECT_EQ(TextFile(find_text_part(layout, "whole")).text(), "0123456789");
  EXPECT_EQ(TextFile(find_text_part(layout, "val")).text(), "9");
  EXPECT_EQ(TextFile(find_text_part(layout, "train")).text(), "012345678");
  expect_part(refusal([&] { find_text_part(layout, "test"); }), "has no test split; it has train");
  expect_part(refusal([&] { find_text_part(layout, "tset"); }, ErrorKind::kUsage), "'test'?");
  write("m/train.txt", "a");
  write("m/test.txt", "a");
  expect_part(refusal([&] { find_text_part(find_text(folder("m"), 0), "whole"); }), "not one file");
}

TEST_F(TokenData, OneSplitIsThatOfAll) {
  write("p/input.txt", "abcdefghij");
  const std::string tokens = exported("p", "chars");
  for (const std::string& path : {folder("p"), tokens}) {
    const TextData all = open(path);
    const TextSplit one = open_text_split({.path = path}, "val", all.tokenizer);
    EXPECT_EQ(text_of(*one.tokens, *all.tokenizer), "j");
    EXPECT_EQ(one.bytes, 1);
    EXPECT_EQ(open_text_split({.path = path}, "train").tokens->size(), 9);
  }
  EXPECT_EQ(open_text_split({.path = folder("p")}, "whole").bytes, 10);
  EXPECT_EQ(open_text_split({.path = tokens + "/train.bin"}, "whole").bytes, 9);
  expect_part(refusal([&] { open_text_split({.path = tokens}, "whole"); }), "not one file");
  expect_part(refusal([&] { open_text_split({.path = write("q.txt", "")}, "whole"); }),
              "(whole) is empty");
}

TEST(CropBatch, IsAFunctionOfItsArguments) {
  std::vector<int32_t> ids(100);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 * i);
  const TokenSource source(ids, "it");
  const auto [x, y] = crop_batch(source, 5, 8, 1, 2);
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{5, 8}));
  EXPECT_EQ(x.dtype(), torch::kInt64);
  EXPECT_TRUE(torch::equal(y, x + 3));  // the next token
  EXPECT_TRUE(torch::equal(x.slice(1, 1), y.slice(1, 0, 7)));
  EXPECT_TRUE(torch::equal(crop_batch(source, 5, 8, 1, 2).first, x));
  EXPECT_FALSE(torch::equal(crop_batch(source, 5, 8, 1, 3).first, x));
  EXPECT_FALSE(torch::equal(crop_batch(source, 5, 8, 2, 2).first, x));
}

TEST(CropBatch, EveryPlaceIsMet) {
  const TokenSource source(std::vector<int32_t>{0, 1, 2, 3, 4, 5}, "it");
  std::map<int64_t, int> starts;
  const auto x = crop_batch(source, 3000, 3, 0, 0).first;
  for (int64_t row = 0; row < x.size(0); ++row) ++starts[x[row][0].item<int64_t>()];
  ASSERT_EQ(starts.size(), 3u);  // 0, 1, 2
  for (const auto& [start, count] : starts) EXPECT_NEAR(count, 1000, 150);
}

TEST(CropBatch, RefusesTooShortSources) {
  const TokenSource source(std::vector<int32_t>(8), "'x.txt' (train)");
  EXPECT_EQ(crop_batch(source, 1, 7, 0, 0).first.size(1), 7);
  expect_part(refusal([&] { crop_batch(source, 1, 8, 0, 0); }),
              "'x.txt' (train) has 8 tokens, fewer than the 8 + 1 of a crop");
  for (const auto& [batch, block] : {std::pair{0, 4}, {4, 0}, {-1, 4}, {4, -1}}) {
    expect_part(
        refusal([&, b = batch, n = block] { crop_batch(source, b, n, 0, 0); }, ErrorKind::kUsage),
        "impossible");
  }
}

TEST(TokenSource, HoldsLargeIdsToo) {
  const TokenSource source({1, 70'000, 3}, "it");
  EXPECT_EQ(source.at(1), 70'000);
  int64_t out[2];
  expect_part(refusal([&] { source.copy(2, 2, out); }), "it has 3 tokens; 2 from place 2");
  expect_part(refusal([&] { source.copy(-1, 1, out); }), "not there");
  expect_part(refusal([&] { source.copy(1, std::numeric_limits<int64_t>::max(), out); }),
              "not there");
}

TEST_F(TokenData, ExportIsWholeOrNothing) {
  write("n/input.txt", std::string(3 << 20, 'a') + " b");
  const std::string out = folder("out");
  int64_t last = 0, calls = 0;
  TokenExportOptions options;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, (3 << 20) + 2);
    last = done;
  };
  options.stop = [&] { return ++calls > 1; };
  const TextSpec spec{.path = folder("n"), .tokenizer = "bytes"};
  EXPECT_FALSE(export_tokens(spec, out, options));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 1);
  options.stop = nullptr;
  last = 0;
  write("out.tmp/mine", "kept");
  const auto result = export_tokens(spec, out + "//", options);
  ASSERT_TRUE(result);
  EXPECT_TRUE(fs::exists(out + ".tmp/mine"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 3);
  EXPECT_EQ(last, (3 << 20) + 2);
  EXPECT_EQ(result->tokens.at("train") + result->tokens.at("validation"), last);
  EXPECT_EQ(read_tokenizer_file(fs::path(out) / "tokenizer.json")->kind(), "bytes");
  expect_part(refusal([&] { export_tokens(spec, out); }, ErrorKind::kUsage), "not an empty folder");
  expect_part(refusal([&] { export_tokens({.path = out}, folder("z")); }, ErrorKind::kUsage),
              "holds tokens already");
  expect_part(refusal([&] { export_tokens(spec, "/proc/x"); }), "/proc/x.tmp");
}

TEST_F(TokenData, CharactersAreExportedInStretches) {
  std::string text = "a";  // so that a MiB ends within a character
  for (int i = 0; i < (5 << 18); ++i) text += "é";
  const std::string file = write("r/train.txt", text);
  const TextSpec spec{.path = folder("r"), .tokenizer = "chars", .holdout = 0};
  std::vector<int64_t> done;
  TokenExportOptions options;
  options.progress = [&](int64_t bytes, int64_t) { done.push_back(bytes); };
  const auto result = export_tokens(spec, folder("whole"), options);
  EXPECT_EQ(done, (std::vector<int64_t>{(1 << 20) + 1, (2 << 20) + 1, (5 << 19) + 1}));
  EXPECT_EQ(result->tokens.at("train"), (5 << 18) + 1);
  int calls = 0;
  options.stop = [&] { return ++calls > 2; };
  EXPECT_FALSE(export_tokens(spec, folder("stopped"), options));
  EXPECT_EQ(done.size(), 5u);
  options.stop = nullptr;
  options.progress = [&](int64_t, int64_t) {  // the file changes while it is read
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp((1 << 20) + 3)
        << '\xFF';
  };
  expect_part(
      refusal([&] { export_tokens(spec, folder("changed"), options); }),
      "train.txt' (train), counted from byte 1048577: The text is not valid UTF-8 at byte 2");
}

TEST_F(TokenData, AnyRanksFileNextToTheTextIsUsed) {
  write("s/train.txt", "text");
  write("s/mine.tiktoken", "nonsense");
  const auto refused = [&] { return refusal([&] { open(folder("s"), "gpt2"); }); };
  expect_part(refused(), "mine.tiktoken' is not a ranks file");
  write("s/another.tiktoken", "nonsense");
  expect_part(refused(), "more than one .tiktoken file (another.tiktoken, mine.tiktoken)");
}

TEST_F(TokenData, ExportRefusesVocabulariesBeyond16Bits) {
  std::string text;
  for (int word = 0; word < 80'000; ++word) text += cat(word, " ");
  const TextSpec spec{.path = write("o.txt", text), .tokenizer = "words:70000"};
  expect_part(refusal([&] { export_tokens(spec, folder("z")); }, ErrorKind::kUsage),
              "does not fit the 16-bit");
}

TEST(Stretches, DoNotChangeTokens) {
  TOST_SHARED_OR_SKIP(vocabulary, "data/gpt2-bpe");
  const auto gpt2 = load_gpt2_tokenizer(vocabulary.string());
  const std::vector<std::string> bits = {"word", " ",  "\n", "  ", "\u00A0", "\u3000", "\u2003",
                                         "'s",   "。", "é",  "1",  "\t",     "\xFF",   "\x85"};
  Random random(5);
  for (int trial = 0; trial < 500; ++trial) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += bits[static_cast<size_t>(random.below(14))];
    std::vector<int32_t> ids;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = stretch_end(rest, 5);
      for (const int32_t id : gpt2->encode(rest.substr(0, end))) ids.push_back(id);
      rest.remove_prefix(end);
    }
    ASSERT_EQ(ids, gpt2->encode(text)) << text;
  }
  EXPECT_EQ(stretch_end("ab cd", 1), 2u);
  EXPECT_EQ(stretch_end("ab  ", 3), 4u);
  EXPECT_EQ(stretch_end("", 3), 0u);
}

TEST_F(TokenData, TinyShakespeareIsSplitAsUsual) {
  TOST_SHARED_OR_SKIP(path, "data/tinyshakespeare");
  const TextData data = open(path.string());
  EXPECT_EQ(data.tokenizer->kind(), "chars");
  EXPECT_EQ(data.vocab_size, 65);
  EXPECT_EQ(data.train->size(), 1'003'854);
  EXPECT_EQ(data.validation->size(), 111'540);
  const TextData gpt2 = open(path.string(), "gpt2");
  EXPECT_EQ(gpt2.train->size(), 301'966);
  EXPECT_EQ(gpt2.validation->size(), 36'059);
}

TEST_F(TokenData, WikiTextHasItsWordsSlow) {
  TOST_SHARED_OR_SKIP(path, "data/wikitext-2");
  const TextData data = open(path.string(), "words:100000");
  EXPECT_EQ(data.vocab_size, 33'278);
  EXPECT_EQ(data.train->size(), 2'088'628);
  EXPECT_EQ(data.validation->size(), 217'646);
  EXPECT_EQ(data.test->size(), 245'569);
  EXPECT_EQ(data.test_bytes, 1'256'449);
}

}  // namespace
}  // namespace tost
