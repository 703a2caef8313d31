// The tokenizer of characters: one token for each character of the training text.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/utf8.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

std::string shown_character(uint32_t code_point) {
  char name[16];
  std::snprintf(name, sizeof name, "U+%04X", code_point);
  if (code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0)) return name;
  std::string text = "'";
  append_utf8(text, code_point);
  return text + "' (" + name + ")";
}

class CharTokenizer : public Tokenizer {
 public:
  // Code points, ascending.
  explicit CharTokenizer(std::vector<uint32_t> characters)
      : characters_(std::move(characters)), ids_(size_t{characters_.back()} + 1, -1) {
    for (size_t i = 0; i < characters_.size(); ++i) {
      ids_[characters_[i]] = static_cast<int32_t>(i);
    }
  }

  std::string kind() const override { return "chars"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t length = utf8_length(text, at);
      if (length == 0) {
        fail_data("The text is not valid UTF-8 at byte ", at,
                  "; the characters tokenizer needs UTF-8, the bytes tokenizer takes anything.");
      }
      const uint32_t code = utf8_code_point(text, at, length);
      if (code >= ids_.size() || ids_[code] < 0) {
        fail_data("The character ", shown_character(code), " at byte ", at, " is not among the ",
                  characters_.size(), " characters of the vocabulary.");
      }
      ids.push_back(ids_[code]);
      at += length;
    }
    return ids;
  }

  std::string piece(int32_t id) const override {
    std::string text;
    append_utf8(text, characters_[checked_id(*this, id)]);
    return text;
  }

  nlohmann::json to_json() const override {
    std::string all;
    for (const uint32_t code : characters_) append_utf8(all, code);
    return {{"kind", kind()}, {"characters", all}};
  }

 private:
  std::vector<uint32_t> characters_;
  std::vector<int32_t> ids_;  // by code point, -1 where there is none
};

}  // namespace

void CharSet::add(std::string_view text, const std::string& where) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      fail_data(where, " is not valid UTF-8 at byte ", at,
                "; the characters tokenizer needs UTF-8, the bytes tokenizer takes anything.");
    }
    const uint32_t code = utf8_code_point(text, at, length);
    if (code >= seen_.size()) seen_.resize(code + 1);
    seen_[code] = true;
    at += length;
  }
}

int64_t CharSet::size() const {
  return std::count(seen_.begin(), seen_.end(), true);
}

std::shared_ptr<const Tokenizer> CharSet::tokenizer() const {
  std::vector<uint32_t> characters;
  for (size_t code = 0; code < seen_.size(); ++code) {
    if (seen_[code]) characters.push_back(static_cast<uint32_t>(code));
  }
  if (characters.empty()) fail_data("A characters tokenizer needs a text with characters.");
  return std::make_shared<CharTokenizer>(std::move(characters));
}

std::shared_ptr<const Tokenizer> char_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where) {
  if (!payload.is_string()) fail_data(where, ": \"characters\" should be a string.");
  const auto& text = payload.get_ref<const std::string&>();
  std::vector<uint32_t> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) fail_data(where, ": \"characters\" is not valid UTF-8 at byte ", at, ".");
    const uint32_t code = utf8_code_point(text, at, length);
    if (!characters.empty() && code <= characters.back()) {
      fail_data(where, ": \"characters\" is not sorted without repetition at byte ", at, ".");
    }
    characters.push_back(code);
    at += length;
  }
  if (characters.empty()) fail_data(where, ": \"characters\" is empty.");
  return std::make_shared<CharTokenizer>(std::move(characters));
}

}  // namespace tost
