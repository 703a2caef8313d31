// Caches the states after beginnings of prompts, so that a repeated beginning is not read again.
// The cache is a trie whose edges are pieces of kPrefixPiece tokens. The last tokens of a prompt
// form a shorter edge, which only the same prompt can use.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "tost/engine/language_state.h"

namespace tost {

// Prompts are read in pieces that end at multiples of kPrefixPiece, cached or not. The content of
// the cache therefore changes no bit of the results.
inline constexpr int64_t kPrefixPiece = 256;

// Not thread-safe.
class PrefixCache {
 public:
  // Limit in bytes for arrays, keys and the overhead of allocator and trie; 0 caches nothing.
  explicit PrefixCache(int64_t most_bytes);
  ~PrefixCache();

  struct Hit {
    int64_t tokens = 0;   // 0: nothing found
    LanguageState state;  // a copy
    Array last;           // as add() got it
  };
  // Finds the state after all of `ids`, or after the longest cached beginning of whole pieces.
  Hit find(std::span<const int32_t> ids);

  // Caches the state after the first `tokens` of `ids`: a multiple of kPrefixPiece, or all. Does
  // nothing if the previous piece is not cached or the state exceeds the limit. Evicts the least
  // recently used leaves. `last` is the hidden vector if `tokens` is a multiple, else the logits.
  void add(std::span<const int32_t> ids, int64_t tokens, const LanguageState& state,
           const Array& last);

  int64_t bytes() const { return bytes_; }
  int64_t entries() const { return int64_t(recent_.size()); }

 private:
  struct Node;
  using Piece = std::vector<int32_t>;
  static Piece piece_at(std::span<const int32_t> ids, int64_t index);
  void use(Node& node);
  void shrink();

  const int64_t most_bytes_;
  int64_t bytes_ = 0;
  std::unique_ptr<Node> root_;
  std::list<Node*> recent_;  // those used last come first
};

}  // namespace tost
