#include "tost/io/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "tost/base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tost/base/error.h"
#include "tost/base/utf8.h"

namespace tost {
namespace {

constexpr size_t kLongestToken = 4096;
constexpr size_t kMaxTokens = size_t{1} << 24;

// Two neighbours that can be joined; pairs are ordered by id, and then by position. The struct is
// small, because a long piece has one for each byte and the heap takes most of the time.
struct Candidate {
  uint64_t key;     // id, then where the left part begins
  uint32_t length;  // of both

  Candidate(int32_t id, uint32_t begin, uint32_t length)
      : key(uint64_t{static_cast<uint32_t>(id)} << 32 | begin), length(length) {}
  uint32_t begin() const { return static_cast<uint32_t>(key); }
  bool operator>(const Candidate& other) const { return key > other.key; }
};

// The parts of a piece, as a linked list of the offsets at which they begin.
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
      // Skips an outdated candidate: its left part was joined to another, or a part has grown.
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
  // Adds the part at `begin` and its right neighbour to the heap, if they can be joined.
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

namespace {

// Lists the letters and numbers of Unicode 15.0 to 16.0 that PCRE2 10.42 (Unicode 14) lacks.
constexpr char kNewLetters[] =
    R"(\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}\x{11240}\x{11380}-\x{11389}\x{1138B})"
    R"(\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02})"
    R"(\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA})"
    R"(\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A})"
    R"(\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739})"
    R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr char kNewNumbers[] =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3})"
    R"(\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";
// Excludes U+180E, which \s of PCRE2 contains and White_Space does not.
constexpr char kSpaces[] =
    R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F})"
    R"(\x{205F}\x{3000})";

std::string pattern() {
  const std::string letters = cat(R"(\p{L})", kNewLetters);
  const std::string numbers = cat(R"(\p{N})", kNewNumbers);
  return cat("'s|'t|'re|'ve|'m|'ll|'d| ?[", letters, "]+| ?[", numbers, "]+| ?[^", kSpaces, letters,
             numbers, "]+|[", kSpaces, "]+(?![^", kSpaces, "])|[", kSpaces, "]+");
}

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct Gpt2Splitter::Code {
  pcre2_code* compiled = nullptr;

  ~Code() { pcre2_code_free(compiled); }

  void split(std::string_view valid, function_ref<void(std::string_view)> piece) const {
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    if (!match) fail_data("PCRE2 could not start: out of memory.");
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(valid.data());
    for (size_t at = 0; at < valid.size();) {
      const int found = pcre2_match(compiled, subject, valid.size(), at, PCRE2_NO_UTF_CHECK,
                                    match.get(), nullptr);
      const size_t* span = pcre2_get_ovector_pointer(match.get());
      if (found < 1 || span[1] <= at) {
        fail_data("PCRE2 failed at byte ", at, " of a text (its error ", found, ").");
      }
      piece(valid.substr(at, span[1] - at));
      at = span[1];
    }
  }
};

Gpt2Splitter::Gpt2Splitter() : code_(std::make_unique<Code>()) {
  const std::string text = pattern();
  int error = 0;
  size_t offset = 0;
  // Anchors the pattern here, because PCRE2 runs no compiled code for matches anchored later.
  code_->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  PCRE2_UTF | PCRE2_ANCHORED, &error, &offset, nullptr);
  if (code_->compiled == nullptr) {
    fail_data("PCRE2 does not take the pattern of GPT-2 (its error ", error, " at ", offset,
              "); it needs Unicode support.");
  }
  // Ignores a lack of executable memory, because PCRE2 then interprets the pattern.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Gpt2Splitter::~Gpt2Splitter() = default;

void Gpt2Splitter::split(std::string_view text, function_ref<void(std::string_view)> piece) const {
  while (!text.empty()) {
    const size_t valid = first_invalid_utf8(text);
    code_->split(text.substr(0, valid), piece);
    size_t next = valid;
    while (next < text.size() && utf8_length(text, next) == 0) ++next;
    if (next > valid) piece(text.substr(valid, next - valid));
    text.remove_prefix(next);
  }
}

}  // namespace tost
