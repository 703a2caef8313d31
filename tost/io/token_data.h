// Texts and token files as streams of token ids for language models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/io/token_file.h"
#include "tost/io/tokenizer.h"

namespace tost {

// A sequence of token ids, in memory or in a mapped file. Several threads may read it.
class TokenSource {
 public:
  // Messages call it `name`.
  TokenSource(const std::vector<int32_t>& ids, std::string name);
  // Takes tokens [begin, begin + count) of the file. Throws a data Error unless all ids are below
  // vocab; ids of files above 1 GiB are checked when they are read.
  TokenSource(std::shared_ptr<const TokenFile> file, int64_t begin, int64_t count, int64_t vocab);

  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  int32_t at(int64_t i) const;
  // Copies tokens [begin, begin + count) to `out`. Throws a data Error if some are missing.
  void copy(int64_t begin, int64_t count, int64_t* out) const;

 private:
  std::string name_;
  int64_t size_ = 0;
  std::vector<uint16_t> narrow_;  // in memory: the smallest possible
  std::vector<int32_t> wide_;
  std::shared_ptr<const TokenFile> file_;
  int64_t begin_ = 0, vocab_ = 0;  // of the file
};

struct TextSpec {
  std::string path;  // find_text (text_layout.h) lists the recognised layouts
  std::string tokenizer =
      "auto";            // auto, bytes, chars, words:N, gpt2[:PATH], file:PATH (text_layout.h)
  double holdout = 0.1;  // last share of the training text, where there is no validation file
};

struct TextData {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: token files without a vocabulary
  std::shared_ptr<const TokenSource> train, validation, test;  // null where there is none
  // The size of the tokenizer's vocabulary. Without a tokenizer, 50,257 (GPT-2's) for files of
  // llm.c, else the largest id + 1.
  int64_t vocab_size = 0;
  // The bytes of the splits' text, without separators; 0 if unknown.
  int64_t validation_bytes = 0, test_bytes = 0;
};

// Opens a text. `known`, the tokenizer of a model, replaces spec.tokenizer. Throws a data Error
// naming the file if the text cannot be encoded, tokens are outside the vocabulary, or token files
// were made with another tokenizer. Also throws the Errors of find_text and make_text_tokenizer.
TextData open_text(const TextSpec& spec, std::shared_ptr<const Tokenizer> known = nullptr);

struct TextSplit {
  std::shared_ptr<const TokenSource> tokens;
  int64_t bytes = 0;  // of the tokens' text, without separators; 0: unknown
};

// Opens one split, by its name or as `whole` (see find_text_part). Throws the Errors of open_text,
// and a data Error for an empty split.
TextSplit open_text_split(const TextSpec& spec, const std::string& split,
                          std::shared_ptr<const Tokenizer> known = nullptr);

// Draws random crops [batch, block + 1]: a block, and the token after it. The result depends only
// on the arguments; all positions where a crop fits are equally likely. Throws a data Error if the
// source is shorter than block + 1, a usage Error for batch or block below 1.
std::vector<int64_t> crop_tokens(const TokenSource& source, int64_t batch, int64_t block,
                                 uint64_t seed, int64_t index);

}  // namespace tost
