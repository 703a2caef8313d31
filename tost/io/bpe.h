// Byte-pair encoding of one piece of text over a table of tokens, as tiktoken defines it. While two
// neighbours together are a token, the pair with the lowest id is joined, the leftmost first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tost/base/function_ref.h"

namespace tost {

// Cuts a text into the pieces that GPT-2 encodes separately: contractions, words, numbers, other
// signs, white space. The official pattern is
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// With every version of PCRE2, letters and numbers are those of Unicode 16, and \s is the property
// White_Space, as in tiktoken.
class Gpt2Splitter {
 public:
  Gpt2Splitter();
  ~Gpt2Splitter();
  Gpt2Splitter(const Gpt2Splitter&) = delete;
  Gpt2Splitter& operator=(const Gpt2Splitter&) = delete;

  // Calls piece(view) for every piece in order; joined, the pieces are the text. A run of bytes
  // that are not UTF-8 is one piece, and the text on either side is split separately. Thread-safe.
  void split(std::string_view text, function_ref<void(std::string_view)> piece) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

class BpeTable {
 public:
  // Makes a tokenizer from the tokens in the order of ids. Throws a data Error naming `where`
  // unless all 256 bytes are tokens, and no token is empty, longer than 4,096 bytes or repeated.
  BpeTable(std::vector<std::string> tokens, const std::string& where);
  BpeTable(const BpeTable&) = delete;
  BpeTable& operator=(const BpeTable&) = delete;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  int32_t id(std::string_view bytes) const;  // -1 where there is no such token

  // Appends the ids of a piece that is not empty, one id if it is a token. Takes O(n log n) time.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views into tokens_
  size_t longest_ = 0;
};

// ---- The files of GPT-2's vocabulary. ----

// Reads GPT-2's 50,256 tokens by id, without the end of text. `path` is a ranks file of tiktoken,
// or a folder with a ranks file (*.tiktoken), or with vocab.bpe and encoder.json, which must match.
// Throws a data Error naming file and line.
std::vector<std::string> read_gpt2_tokens(const std::string& path);

// Write and read tokens in base64, separated by spaces; the reader throws a data Error naming
// `where` and the token.
std::string tokens_to_base64(const std::vector<std::string>& tokens);
std::vector<std::string> tokens_from_base64(std::string_view text, const std::string& where);

}  // namespace tost
