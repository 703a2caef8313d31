// Tokenizers from JSON and from the files of GPT-2's vocabulary, and text through them.
#include <fstream>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tests/testing/temp_dir.h"
#include "tost/io/bpe.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/tokenizers.h"

namespace tost::fuzz {
namespace {

void check_text(const Tokenizer& tokenizer, std::string_view text, bool exact) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  for (const int32_t id : ids)
    require(id >= 0 && id < tokenizer.vocab_size(), "ids below the size");
  const std::string back = tokenizer.decode(ids);
  require(!exact || back == text, "text comes back");
}

void try_description(std::string_view input) {
  const auto tokenizer = tokenizer_from_json(parse_json(input, "fuzz"), "fuzz");
  require(tokenizer->vocab_size() >= 1, "a vocabulary");
  const auto description = tokenizer->to_json();
  require(tokenizer_from_json(description, "fuzz")->to_json() == description,
          "described and made again the same");
  or_refuse([&] { check_text(*tokenizer, "the fox, 12 foxes\n", tokenizer->kind() != "words"); });
}

// The bytes and a few merges of them.
const Tokenizer& small_bpe() {
  static const auto tokenizer = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* merged : {"th", "the", " t", " the", "in", "ing", "\xC3\xBC", "  ", "12"}) {
      tokens.emplace_back(merged);
    }
    return make_bpe_tokenizer(tokens, "fuzz");
  }();
  return *tokenizer;
}

// vocab.bpe up to a NUL byte, encoder.json after it.
void try_merges(std::string_view input) {
  static const testing::TempDir folder;
  const size_t cut = std::min(input.find('\0'), input.size());
  std::ofstream(folder.path() / "vocab.bpe", std::ios::binary) << input.substr(0, cut);
  std::ofstream(folder.path() / "encoder.json", std::ios::binary)
      << input.substr(std::min(cut + 1, input.size()));
  read_gpt2_tokens(folder.path().string());
}

void try_base64(std::string_view input) {
  if (const auto bytes = from_base64(input)) {
    require(to_base64(*bytes) == input, "one spelling of every text");
  }
  const std::vector<std::string> tokens = tokens_from_base64(input, "fuzz");
  require(tokens_to_base64(tokens) == input, "one spelling of every list");
}

}  // namespace

void try_tokenizer(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] {
    switch (choice % 6) {
      case 0:
        return try_description(input);
      case 1:
        return check_text(small_bpe(), input, true);
      case 2:
        return try_merges(input);
      case 3:
        read_gpt2_tokens(MemoryFile(input).path());
        return;
      case 4:
        return try_base64(input);
      default:
        CharSet set;
        set.add(input, "fuzz");
        return check_text(*set.tokenizer(), input, true);
    }
  });
}

}  // namespace tost::fuzz
