#include "tost/io/tokenizers.h"

namespace tost {
namespace {

constexpr int32_t kBytes = 256;

class ByteTokenizer : public Tokenizer {
 public:
  std::string kind() const override { return "bytes"; }
  int64_t vocab_size() const override { return kBytes + 1; }
  int32_t end_of_text() const override { return kBytes; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<uint8_t>(text[i]);
    return ids;
  }

  std::string piece(int32_t id) const override {
    const size_t byte = checked_id(*this, id);
    return id == kBytes ? kEndOfText : std::string(1, static_cast<char>(byte));
  }

  nlohmann::json to_json() const override { return {{"kind", kind()}}; }
};

}  // namespace

std::shared_ptr<const Tokenizer> make_byte_tokenizer() {
  return std::make_shared<ByteTokenizer>();
}

}  // namespace tost
