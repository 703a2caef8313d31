// The tokenizer of words: the most frequent words of the training text.
#include <algorithm>
#include <unordered_map>

#include "tost/base/error.h"
#include "tost/base/utf8.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

constexpr int32_t kUnknown = 0, kLineEnd = 1;
constexpr int64_t kMaxWords = int64_t{1} << 24;
constexpr const char* kSpecial[] = {"<unk>", "<eos>"};  // by id

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Calls word(view) for every word and line_end() for every newline, in order.
template <typename Word, typename LineEnd>
void scan(std::string_view text, Word word, LineEnd line_end) {
  for (size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      if (text[at++] == '\n') line_end();
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    word(text.substr(begin, at - begin));
  }
}

bool is_special(std::string_view word) {
  return word == kSpecial[kUnknown] || word == kSpecial[kLineEnd];
}

// Whether an entry of a vocabulary could come from a text.
bool is_word(std::string_view word) {
  return !word.empty() && !is_special(word) && std::none_of(word.begin(), word.end(), is_space) &&
         first_invalid_utf8(word) == word.size();
}

class WordTokenizer : public Tokenizer {
 public:
  // Makes a tokenizer from all words in the order of ids; the first two are special.
  explicit WordTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
    for (size_t i = kLineEnd + 1; i < words_.size(); ++i) {
      ids_.emplace(words_[i], static_cast<int32_t>(i));
    }
  }

  std::string kind() const override { return "words"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(words_.size()); }
  int32_t unknown() const override { return kUnknown; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    scan(
        text,
        [&](std::string_view word) {
          const auto found = ids_.find(word);
          ids.push_back(found == ids_.end() ? kUnknown : found->second);
        },
        [&] { ids.push_back(kLineEnd); });
    return ids;
  }

  std::string piece(int32_t id) const override {
    const size_t i = checked_id(*this, id);
    return id == kLineEnd ? "\n" : " " + words_[i];
  }

  nlohmann::json to_json() const override { return {{"kind", kind()}, {"words", words_}}; }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views into words_
};

}  // namespace

std::shared_ptr<const Tokenizer> make_word_tokenizer(std::string_view text, int64_t size,
                                                     const std::string& where) {
  if (size < 3 || size > kMaxWords) {
    fail_usage("A words tokenizer of ", size, " ids is impossible: 3 to ", kMaxWords,
               " can be had, <unk> and <eos> included.");
  }
  if (const size_t bad = first_invalid_utf8(text); bad < text.size()) {
    fail_data(where, " is not valid UTF-8 at byte ", bad,
              "; the words tokenizer needs UTF-8, the bytes tokenizer takes anything.");
  }
  std::unordered_map<std::string_view, int64_t> counts;
  scan(
      text, [&](std::string_view word) { ++counts[word]; }, [] {});
  std::vector<std::pair<int64_t, std::string_view>> order;  // (-count, word)
  for (const auto& [word, count] : counts) {
    if (!is_special(word)) order.emplace_back(-count, word);
  }
  if (order.empty()) fail_data(where, " has no words to make a tokenizer of.");
  const size_t known = std::min(order.size(), static_cast<size_t>(size - 2));
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(known), order.end());
  std::vector<std::string> words = {kSpecial[kUnknown], kSpecial[kLineEnd]};
  for (size_t i = 0; i < known; ++i) words.emplace_back(order[i].second);
  return std::make_shared<WordTokenizer>(std::move(words));
}

std::shared_ptr<const Tokenizer> word_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where) {
  if (!payload.is_array() || payload.size() < 3 ||
      payload.size() > static_cast<size_t>(kMaxWords)) {
    fail_data(where, ": \"words\" should be a list of 3 to ", kMaxWords, " words.");
  }
  std::vector<std::string> words;
  std::unordered_map<std::string, size_t> seen;
  for (size_t i = 0; i < payload.size(); ++i) {
    if (!payload[i].is_string()) fail_data(where, ": word ", i, " is not a string.");
    std::string word = payload[i].get<std::string>();
    if (i <= kLineEnd && word != kSpecial[i]) {
      fail_data(where, ": word ", i, " is not ", kSpecial[i], ", which has this place.");
    }
    if (i > kLineEnd && !is_word(word)) fail_data(where, ": word ", i, " is not a word.");
    if (!seen.emplace(word, i).second) fail_data(where, ": word ", i, " is there twice.");
    words.push_back(std::move(word));
  }
  return std::make_shared<WordTokenizer>(std::move(words));
}

}  // namespace tost
