// Byte-pair encoding of one piece of text over a table of tokens, as tiktoken defines it: while two
// neighbours joined are a token, join those whose token has the lowest id, the leftmost first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tost {

class BpeTable {
 public:
  // Tokens by id. Throws a data Error naming `where` unless all 256 bytes are there and no token is
  // empty, over 4,096 bytes or there twice.
  BpeTable(std::vector<std::string> tokens, const std::string& where);
  BpeTable(const BpeTable&) = delete;
  BpeTable& operator=(const BpeTable&) = delete;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  int32_t id(std::string_view bytes) const;  // -1 where there is no such token

  // Appends the ids of a piece that is not empty: its own where it is a token. O(n log n) time.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views into tokens_
  size_t longest_ = 0;
};

}  // namespace tost
