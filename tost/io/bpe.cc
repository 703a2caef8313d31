#include "tost/io/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr size_t kLongestToken = 4096;
constexpr size_t kMaxTokens = size_t{1} << 24;

// Two neighbours that can be joined; ordered by id, then from the left. Small, since a long piece
// has as many as bytes and the heap is what takes the time.
struct Candidate {
  uint64_t key;     // id, then where the left part begins
  uint32_t length;  // of both

  Candidate(int32_t id, uint32_t begin, uint32_t length)
      : key(uint64_t{static_cast<uint32_t>(id)} << 32 | begin), length(length) {}
  uint32_t begin() const { return static_cast<uint32_t>(key); }
  bool operator>(const Candidate& other) const { return key > other.key; }
};

// The parts a piece consists of, as a linked list over the offsets where they begin.
class Parts {
 public:
  Parts(std::string_view piece, const BpeTable& table)
      : piece_(piece), table_(table), end_(piece.size()), previous_(piece.size()) {
    const auto size = static_cast<uint32_t>(piece.size());
    for (uint32_t i = 0; i < size; ++i) {
      end_[i] = i + 1;
      previous_[i] = i - 1;  // not read for the first
    }
    for (uint32_t i = 0; i + 1 < size; ++i) consider(i);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void join_all() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint32_t begin = heap_.back().begin(), end = begin + heap_.back().length;
      heap_.pop_back();
      const uint32_t middle = end_[begin];
      // Out of date: the left part was joined into another, or either has grown.
      if (middle == 0 || middle >= end || end_[middle] != end) continue;
      end_[begin] = end;
      end_[middle] = 0;
      if (end < piece_.size()) {
        previous_[end] = begin;
        if (consider(begin)) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
      if (begin > 0 && consider(previous_[begin])) {
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
    }
  }

  void append_ids(std::vector<int32_t>& ids) const {
    for (size_t at = 0; at < piece_.size(); at = end_[at]) {
      ids.push_back(table_.id(piece_.substr(at, end_[at] - at)));
    }
  }

 private:
  // Appends the part at `begin` with its right neighbour, if the two can be joined.
  bool consider(uint32_t begin) {
    const uint32_t length = end_[end_[begin]] - begin;
    const int32_t id = table_.id(piece_.substr(begin, length));
    if (id >= 0) heap_.emplace_back(id, begin, length);
    return id >= 0;
  }

  std::string_view piece_;
  const BpeTable& table_;
  std::vector<uint32_t> end_;       // by begin; 0 where no part begins
  std::vector<uint32_t> previous_;  // begin of the left neighbour
  std::vector<Candidate> heap_;     // the best on top
};

}  // namespace

BpeTable::BpeTable(std::vector<std::string> tokens, const std::string& where)
    : tokens_(std::move(tokens)) {
  if (tokens_.size() > kMaxTokens) {
    fail_data(where, " has ", tokens_.size(), " tokens, more than the ", kMaxTokens,
              " that are read.");
  }
  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (token.empty() || token.size() > kLongestToken) {
      fail_data(where, ": token ", id, " has ", token.size(), " bytes; 1 to ", kLongestToken,
                " are possible.");
    }
    const auto [known, fresh] = ids_.emplace(token, static_cast<int32_t>(id));
    if (!fresh) fail_data(where, ": tokens ", known->second, " and ", id, " are the same.");
    longest_ = std::max(longest_, token.size());
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (id({&c, 1}) < 0) fail_data(where, " has no token for the byte ", byte, ".");
  }
}

int32_t BpeTable::id(std::string_view bytes) const {
  if (bytes.size() > longest_) return -1;
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? -1 : found->second;
}

void BpeTable::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const int32_t whole = id(piece); whole >= 0) return ids.push_back(whole);
  if (piece.size() > std::numeric_limits<uint32_t>::max()) {
    fail_data("A run of ", piece.size(), " bytes without a break is too long for the BPE.");
  }
  Parts parts(piece, *this);
  parts.join_all();
  parts.append_ids(ids);
}

}  // namespace tost
