#include "tost/kinds/language/explain_tokens.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/kinds/language/text.h"
#include "tost/kinds/language/tokenizer.h"

namespace tost {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

std::string hex_byte(unsigned char byte) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%02X", byte);
  return cat("‹", digits.data(), "›");
}

std::string visible_ascii(char c) {
  switch (c) {
    case ' ':
      return "·";
    case '\n':
      return "↵";
    case '\t':
      return "⇥";
    case '\r':
      return "␍";
    default:
      return c < 0x20 || c == 0x7f ? hex_byte(static_cast<unsigned char>(c)) : std::string(1, c);
  }
}

// Characters that would take no place or turn the direction of what follows.
bool invisible(uint32_t c) {
  return (c >= 0x80 && c < 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB);
}

std::string code_point_name(uint32_t c) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%04X", c);
  return cat("‹U+", digits.data(), "›");
}

// Text cut at `bytes` or before, where a character begins.
std::string_view whole_beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && bytes - end < 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

// Some bytes more than are used, so that a character is not cut.
constexpr size_t kEnoughBytes = kReadBytes + 4;

int64_t longest(const LanguageInfo& info, int64_t max_tokens) {
  if (max_tokens < 1) {
    fail_usage("A passage of at most ", max_tokens, " tokens is impossible; at least 1 is needed.");
  }
  return info.config.positions == "learned" ? std::min(max_tokens, info.config.block) : max_tokens;
}

void note_cut(const LanguageInfo& info, Passage& passage, int64_t limit, int64_t max_tokens) {
  const bool by_block =
      info.config.positions == "learned" && limit == info.config.block && limit < max_tokens;
  const std::string count =
      limit == 1 ? "first token is" : cat("first ", human_number(limit), " tokens are");
  passage.notes.push_back(cat("The text is longer; its ", count, " shown",
                              by_block ? ", the block that the model has positions for." : "."));
}

void name_tokens(const LanguageInfo& info, Passage& passage) {
  for (const int64_t id : passage.ids) {
    passage.tokens.push_back(visible_token(info.tokenizer.get(), id));
  }
}

}  // namespace

std::string visible_piece(std::string_view bytes, int64_t most) {
  if (bytes.empty()) return "∅";
  std::string shown;
  int64_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    if (count == most) return shown + "…";
    const size_t length = utf8_length(bytes, at);
    const uint32_t point = length > 1 ? utf8_code_point(bytes, at, length) : 0;
    if (length == 0) {
      shown += hex_byte(static_cast<unsigned char>(bytes[at]));
    } else if (length == 1) {
      shown += visible_ascii(bytes[at]);
    } else {
      shown += invisible(point) ? code_point_name(point) : std::string(bytes.substr(at, length));
    }
    at += std::max<size_t>(1, length);
  }
  return shown;
}

std::string visible_token(const Tokenizer* tokenizer, int64_t id) {
  if (tokenizer == nullptr || id < 0 || id >= tokenizer->vocab_size()) return cat("#", id);
  return visible_piece(tokenizer->piece(static_cast<int32_t>(id)));
}

Passage passage_of_text(const LanguageInfo& info, std::string_view text, const std::string& source,
                        int64_t max_tokens, bool more) {
  const int64_t limit = longest(info, max_tokens);
  if (text.empty()) fail_usage(source, " is empty; a passage of at least one token is needed.");
  const Tokenizer& tokenizer = needed_tokenizer(info, cat(source, " cannot be read"));
  const std::string_view beginning = whole_beginning(text, kReadBytes);
  more = more || beginning.size() < text.size();
  Passage passage;
  passage.source = source;
  try {
    const auto ids = tokenizer.encode(beginning);
    passage.ids.assign(ids.begin(), ids.end());
  } catch (const Error& error) {
    throw Error(error.kind(), cat(source, " cannot be read: ", error.what()));
  }
  if (passage.ids.empty()) fail_usage(source, " holds no token; at least one is needed.");
  if (static_cast<int64_t>(passage.ids.size()) > limit || more) {
    passage.ids.resize(std::min(passage.ids.size(), static_cast<size_t>(limit)));
    note_cut(info, passage, static_cast<int64_t>(passage.ids.size()), max_tokens);
  }
  name_tokens(info, passage);
  return passage;
}

Passage passage_of_file(const LanguageInfo& info, const std::string& path, int64_t max_tokens) {
  if (std::filesystem::path(path).extension() == ".bin") {
    const auto text = load_language_text({.path = path, .split = "whole"}, info);
    return passage_of_tokens(info, *text.tokens, cat("'", path, "'"), max_tokens);
  }
  return passage_of_text(info, read_beginning(path, kEnoughBytes), cat("'", path, "'"), max_tokens);
}

Passage passage_of_stream(const LanguageInfo& info, std::istream& in, const std::string& source,
                          int64_t max_tokens) {
  std::string text(kEnoughBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return passage_of_text(info, text, source, max_tokens);
}

Passage passage_of_tokens(const LanguageInfo& info, const TokenSource& tokens,
                          const std::string& source, int64_t max_tokens) {
  const int64_t limit = longest(info, max_tokens);
  if (tokens.size() == 0) fail_usage(source, " holds no token; at least one is needed.");
  Passage passage;
  passage.source = source;
  passage.ids.resize(static_cast<size_t>(std::min(tokens.size(), limit)));
  tokens.copy(0, static_cast<int64_t>(passage.ids.size()), passage.ids.data());
  for (const int64_t id : passage.ids) {
    if (id >= 0 && id < info.config.vocab) continue;
    fail_data("Token id ", id, " of ", source, " is outside the model's vocabulary of ",
              info.config.vocab, "; was the text cut by another tokenizer?");
  }
  if (tokens.size() > limit) note_cut(info, passage, limit, max_tokens);
  name_tokens(info, passage);
  return passage;
}

}  // namespace tost
