#include "tost/io/bpe_alphabet.h"

#include "tost/base/utf8.h"

namespace tost {

Gpt2Alphabet::Gpt2Alphabet() {
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
      code_points_[static_cast<size_t>(b)] = code_point;
      bytes_[code_point] = static_cast<char>(b);
    }
  }
}

std::string Gpt2Alphabet::decode(std::string_view word) const {
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

std::string Gpt2Alphabet::encode(std::string_view token) const {
  std::string word;
  for (const char byte : token) append_utf8(word, code_points_[static_cast<uint8_t>(byte)]);
  return word;
}

}  // namespace tost
