// The visible characters that stand for bytes in GPT-2's vocabulary files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tost {

class Gpt2Alphabet {
 public:
  Gpt2Alphabet();

  // Bytes in the order of the first 256 ids.
  const std::array<uint8_t, 256>& order() const { return order_; }
  // Empty where `word` has a character outside the alphabet.
  std::string decode(std::string_view word) const;
  // A token's bytes as a word.
  std::string encode(std::string_view token) const;

 private:
  std::array<uint8_t, 256> order_{};
  std::array<uint32_t, 256> code_points_{};   // by byte
  std::unordered_map<uint32_t, char> bytes_;  // by code point
};

}  // namespace tost
