// GPT-2's tokenizer: byte-pair encoding of split text.
#include <unordered_map>

#include "tost/base/error.h"
#include "tost/io/bpe.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

// The position of a piece's ids in the ids of the text, where the piece was first encoded.
struct Known {
  size_t begin, count;
};
constexpr size_t kMaxKnown = size_t{1} << 17;
constexpr size_t kLongestKnown = 64;

class Gpt2Tokenizer : public Tokenizer {
 public:
  Gpt2Tokenizer(std::vector<std::string> tokens, const std::string& where)
      : table_(std::move(tokens), where) {}

  std::string kind() const override { return "gpt2"; }
  int64_t vocab_size() const override { return table_.size() + 1; }
  int32_t end_of_text() const override { return static_cast<int32_t>(table_.size()); }

  // Encodes a text, and copies the ids of repeated words.
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    std::unordered_map<std::string_view, Known> known;
    splitter_.split(text, [&](std::string_view piece) {
      if (const int32_t id = table_.id(piece); id >= 0) return ids.push_back(id);
      if (const auto found = known.find(piece); found != known.end()) {
        for (size_t k = 0; k < found->second.count; ++k) {
          ids.push_back(ids[found->second.begin + k]);
        }
        return;
      }
      const size_t begin = ids.size();
      table_.encode(piece, ids);
      if (piece.size() <= kLongestKnown && known.size() < kMaxKnown) {
        known.emplace(piece, Known{begin, ids.size() - begin});
      }
    });
    return ids;
  }

  std::string piece(int32_t id) const override {
    const size_t i = checked_id(*this, id);
    return id == end_of_text() ? kEndOfText : table_.tokens()[i];
  }

  nlohmann::json to_json() const override {
    return {{"kind", kind()}, {"tokens", tokens_to_base64(table_.tokens())}};
  }

 private:
  BpeTable table_;
  Gpt2Splitter splitter_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(std::vector<std::string> tokens,
                                                    const std::string& where) {
  return std::make_shared<Gpt2Tokenizer>(std::move(tokens), where);
}

std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(const std::string& path) {
  return make_bpe_tokenizer(read_gpt2_tokens(path), cat("'", path, "'"));
}

std::shared_ptr<const Tokenizer> bpe_tokenizer_from_json(const nlohmann::json& payload,
                                                         const std::string& where) {
  if (!payload.is_string()) fail_data(where, ": \"tokens\" should be a string.");
  return make_bpe_tokenizer(tokens_from_base64(payload.get_ref<const std::string&>(), where),
                            where);
}

}  // namespace tost
