// Reads GPT-2's vocabulary from its published files.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/utf8.h"
#include "tost/io/bpe.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// Maps bytes to the visible characters that represent them in GPT-2's vocabulary files.
class Gpt2Alphabet {
 public:
  Gpt2Alphabet() {
    const auto visible = [](int b) {
      return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    };
    size_t id = 0;
    uint32_t substitute = 256;
    for (const bool wanted : {true, false}) {
      for (int b = 0; b < 256; ++b) {
        if (visible(b) != wanted) continue;
        const uint32_t code_point = wanted ? static_cast<uint32_t>(b) : substitute++;
        order_[id++] = static_cast<uint8_t>(b);
        bytes_[code_point] = static_cast<char>(b);
      }
    }
  }

  // Lists the bytes in the order of the first 256 ids.
  const std::array<uint8_t, 256>& order() const { return order_; }
  // The bytes that `word` represents; empty if it has a character outside the alphabet.
  std::string decode(std::string_view word) const {
    std::string token;
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_length(word, at);
      if (length == 0) return {};
      const auto found = bytes_.find(utf8_code_point(word, at, length));
      if (found == bytes_.end()) return {};
      token.push_back(found->second);
      at += length;
    }
    return token;
  }

 private:
  std::array<uint8_t, 256> order_{};
  std::unordered_map<uint32_t, char> bytes_;  // by code point
};

constexpr int64_t kMaxFile = int64_t{64} << 20;  // GPT-2's are about 1 MB
constexpr size_t kTokens = 50'256;

std::vector<std::string_view> filled_lines(std::string_view text) {
  return lines_of(text.substr(0, text.find_last_not_of("\r\n") + 1));
}

void check_count(size_t tokens, const fs::path& file) {
  if (tokens == kTokens) return;
  fail_data("'", file.string(), "' gives ", tokens, " tokens where GPT-2 has ", kTokens,
            "; it is cut short or another model's.");
}

// Reads lines with a token in base64, a space, and the rank of the token, from 0.
std::vector<std::string> read_ranks(const fs::path& file) {
  const std::string text = read_file(file, kMaxFile);
  std::vector<std::string> tokens;
  for (const std::string_view line : filled_lines(text)) {
    const size_t space = std::min(line.find(' '), line.size());
    std::optional<std::string> token = from_base64(line.substr(0, space));
    if (!token || token->empty() || line.substr(space) != cat(" ", tokens.size())) {
      fail_data("'", file.string(), "' is not a ranks file of tiktoken: line ", tokens.size() + 1,
                " is not base64, a space and ", tokens.size(), ".");
    }
    tokens.push_back(*std::move(token));
  }
  check_count(tokens.size(), file);
  return tokens;
}

std::vector<std::string> read_merges(const fs::path& file, const Gpt2Alphabet& alphabet) {
  const std::string text = read_file(file, kMaxFile);
  std::vector<std::string> tokens;
  for (const uint8_t byte : alphabet.order()) tokens.emplace_back(1, static_cast<char>(byte));
  const auto lines = filled_lines(text);
  if (lines.empty() || !lines.front().starts_with("#version: 0.2")) {
    fail_data("'", file.string(), "' does not begin with '#version: 0.2' as GPT-2's merges do.");
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t space = std::min(lines[i].find(' '), lines[i].size());
    const std::string left = alphabet.decode(lines[i].substr(0, space));
    const std::string right =
        alphabet.decode(lines[i].substr(std::min(space + 1, lines[i].size())));
    if (left.empty() || right.empty()) {
      fail_data("'", file.string(), "' line ", i + 1, " is not two tokens with a space between.");
    }
    tokens.push_back(left + right);
  }
  check_count(tokens.size(), file);
  return tokens;
}

// Checks that encoder.json gives every token the id of its position in vocab.bpe.
void check_encoder(const fs::path& file, const std::vector<std::string>& tokens,
                   const Gpt2Alphabet& alphabet) {
  const auto ids = parse_json(read_file(file, kMaxFile), cat("'", file.string(), "'"));
  if (!ids.is_object()) fail_data("'", file.string(), "' is not a JSON object of tokens and ids.");
  if (ids.size() != tokens.size() + 1) {
    fail_data("'", file.string(), "' has ", ids.size(), " entries, GPT-2's has ", tokens.size() + 1,
              ".");
  }
  for (const auto& [word, id] : ids.items()) {
    const bool special = word == kEndOfText;
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= tokens.size() &&
                      (id.get<uint64_t>() == tokens.size()) == special &&
                      (special || tokens[id.get<uint64_t>()] == alphabet.decode(word));
    if (!fits) {
      fail_data("'", file.string(), "' gives '", word.substr(0, 80), "' the id ",
                json_text(id).substr(0, 20), ", which is not what vocab.bpe in its folder says.");
    }
  }
}

std::vector<fs::path> ranks_files(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const FolderEntry& entry : folder_entries(folder)) {
    if (entry.path.extension() == ".tiktoken") found.push_back(entry.path);
  }
  return found;
}

}  // namespace

std::vector<std::string> read_gpt2_tokens(const std::string& path) {
  if (!is_folder(path)) return read_ranks(path);
  const fs::path merges = fs::path(path) / "vocab.bpe", encoder = fs::path(path) / "encoder.json";
  if (path_exists(merges) && path_exists(encoder)) {
    const Gpt2Alphabet alphabet;
    std::vector<std::string> tokens = read_merges(merges, alphabet);
    check_encoder(encoder, tokens, alphabet);
    return tokens;
  }
  const std::vector<fs::path> ranks = ranks_files(path);
  if (ranks.size() > 1) {
    std::string names;
    for (const fs::path& file : ranks) {
      names += cat(names.empty() ? "" : ", ", file.filename().string());
    }
    fail_data("'", path, "' holds more than one .tiktoken file (", names,
              "); give the one to use.");
  }
  if (ranks.empty()) {
    fail_data("'", path, "' holds neither vocab.bpe with encoder.json nor one .tiktoken file (it ",
              "has 0); give the folder or file of GPT-2's vocabulary.");
  }
  return read_ranks(ranks.front());
}

std::string tokens_to_base64(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) {
    if (!text.empty()) text += ' ';
    text += to_base64(token);
  }
  return text;
}

std::vector<std::string> tokens_from_base64(std::string_view text, const std::string& where) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::optional<std::string> token = from_base64(text.substr(at, end - at));
    if (!token || token->empty()) {
      fail_data(where, ": token ", tokens.size(), " is not base64 of at least one byte.");
    }
    tokens.push_back(*std::move(token));
    at = end + 1;
  }
  return tokens;
}

}  // namespace tost
