// The interface of tokenizers: text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;  // bytes, chars, words, gpt2
  virtual int64_t vocab_size() const = 0;
  // The id that separates documents, or -1 if there is none.
  virtual int32_t end_of_text() const { return -1; }

  // The id for text outside the vocabulary, or -1 if there is none. Models never write it.
  virtual int32_t unknown() const { return -1; }

  // Encodes ordinary text, in which names of special tokens have no meaning. Throws a data Error
  // naming the byte offset of a character outside the vocabulary.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The same, where `where` and a colon begin the message of an Error.
  std::vector<int32_t> encode(std::string_view text, const std::string& where) const;

  // The bytes of one token; a token may hold part of a character. Throws a data Error for an id
  // outside the vocabulary.
  virtual std::string piece(int32_t id) const = 0;
  std::string decode(const std::vector<int32_t>& ids) const;  // the pieces joined

  // The tokenizer as JSON; tokenizer_from_json(t.to_json()) is the same tokenizer.
  virtual nlohmann::json to_json() const = 0;
};

// Makes a tokenizer from its JSON. Throws a data Error naming `where` for wrong JSON.
std::shared_ptr<const Tokenizer> tokenizer_from_json(const nlohmann::json& json,
                                                     const std::string& where);

}  // namespace tost
