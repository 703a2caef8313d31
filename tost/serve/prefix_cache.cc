#include "tost/serve/prefix_cache.h"

#include <algorithm>

namespace tost {

// The overhead of an array in bytes: its object, its owner's, and an entry in a map.
constexpr int64_t kArrayBytes = 512;

struct PrefixCache::Node {
  Node* parent = nullptr;
  std::map<Piece, std::unique_ptr<Node>> next;
  const Piece* piece = nullptr;  // the key in parent->next
  int64_t tokens = 0, bytes = 0;
  LanguageState state;
  Array last;  // as add() got it
  std::list<Node*>::iterator place;
};

PrefixCache::PrefixCache(int64_t most_bytes)
    : most_bytes_(most_bytes), root_(std::make_unique<Node>()) {}

PrefixCache::~PrefixCache() = default;

PrefixCache::Piece PrefixCache::piece_at(std::span<const int32_t> ids, int64_t index) {
  const auto begin = ids.begin() + index * kPrefixPiece;
  return {begin, begin + std::min<int64_t>(kPrefixPiece, ids.end() - begin)};
}

void PrefixCache::use(Node& node) {
  recent_.splice(recent_.begin(), recent_, node.place);
}

PrefixCache::Hit PrefixCache::find(std::span<const int32_t> ids) {
  Node* node = root_.get();
  for (int64_t i = 0; i * kPrefixPiece < int64_t(ids.size()); ++i) {
    const auto found = node->next.find(piece_at(ids, i));
    if (found == node->next.end()) break;
    node = found->second.get();
  }
  if (node == root_.get()) return {};
  // Moves the ancestors after the node in the list, because they were used with the node.
  for (Node* n = root_.get() == node->parent ? nullptr : node->parent; n != nullptr;
       n = n->parent == root_.get() ? nullptr : n->parent) {
    use(*n);
  }
  use(*node);
  return {node->tokens, copy_of(node->state), node->last};
}

void PrefixCache::add(std::span<const int32_t> ids, int64_t tokens, const LanguageState& state,
                      const Array& last) {
  const int64_t before = (tokens - 1) / kPrefixPiece;
  auto piece = piece_at(ids, before);
  int64_t bytes = int64_t(sizeof(Node) + sizeof(Piece) + piece.size() * sizeof(piece[0])) +
                  last.bytes() + 2 * kArrayBytes;
  for (const auto& block : state.blocks) {
    for (const auto& [name, array] : block) bytes += array.bytes() + kArrayBytes;
  }
  if (bytes > most_bytes_) return;
  Node* parent = root_.get();
  for (int64_t i = 0; i < before; ++i) {
    const auto found = parent->next.find(piece_at(ids, i));
    if (found == parent->next.end()) return;
    parent = found->second.get();
  }
  if (parent->next.count(piece) != 0) return;
  // Completes the node before inserting it into the trie, because an allocation may fail.
  auto node = std::make_unique<Node>();
  node->parent = parent;
  node->tokens = tokens;
  node->state = copy_of(state);
  node->last = last.clone();
  node->bytes = bytes;
  std::list<Node*> place{node.get()};
  const auto at = parent->next.emplace(std::move(piece), std::move(node)).first;
  at->second->piece = &at->first;
  at->second->place = place.begin();
  recent_.splice(recent_.begin(), place);
  bytes_ += bytes;
  shrink();
}

void PrefixCache::shrink() {
  auto at = recent_.end();
  while (bytes_ > most_bytes_ && at != recent_.begin()) {
    Node* node = *--at;
    if (!node->next.empty()) continue;
    at = recent_.erase(at);
    bytes_ -= node->bytes;
    node->parent->next.erase(*node->piece);
    at = recent_.end();  // its parent may be a leaf now
  }
}

}  // namespace tost
