#include "tost/io/tokenizer.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

using nlohmann::json;

struct Kind {
  const char* name;
  const char* payload;  // the key next to "kind"; null: none
  std::shared_ptr<const Tokenizer> (*make)(const json& payload, const std::string& where);
};

constexpr Kind kKinds[] = {
    {"bytes", nullptr, nullptr},
    {"chars", "characters", char_tokenizer_from_json},
    {"words", "words", word_tokenizer_from_json},
    {"gpt2", "tokens", bpe_tokenizer_from_json},
};

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

const Kind& find_kind(const json& object, const std::string& where) {
  if (!object.is_object()) fail_data(where, ": a tokenizer is described by a JSON object.");
  const auto kind = object.find("kind");
  if (kind == object.end() || !kind->is_string()) {
    fail_data(where, ": the tokenizer lacks a \"kind\" that is a string.");
  }
  const auto& name = kind->get_ref<const std::string&>();
  std::vector<std::string> names;
  for (const Kind& known : kKinds) {
    if (name == known.name) return known;
    names.emplace_back(known.name);
  }
  fail_data(where, ": unknown kind of tokenizer '", name.substr(0, 40), "'; known are ",
            join(names, ", "), ".", did_you_mean(name.substr(0, 40), names));
}

}  // namespace

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id);
  return text;
}

size_t checked_id(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer.vocab_size()) {
    fail_data("Token ", id, " is outside the vocabulary of ", tokenizer.vocab_size(), " (",
              tokenizer.kind(), ").");
  }
  return static_cast<size_t>(id);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const std::string& where) const {
  try {
    return encode(text);
  } catch (const Error& error) {
    throw Error(error.kind(), cat(where, ": ", error.what()));
  }
}

std::shared_ptr<const Tokenizer> tokenizer_from_json(const json& object, const std::string& where) {
  const Kind& kind = find_kind(object, where);
  for (const auto& [key, value] : object.items()) {
    if (key != "kind" && (kind.payload == nullptr || key != kind.payload)) {
      fail_data(where, ": a tokenizer of kind ", kind.name, " has no '", key.substr(0, 40), "'.");
    }
  }
  if (kind.payload == nullptr) return make_byte_tokenizer();
  const auto payload = object.find(kind.payload);
  if (payload == object.end()) {
    fail_data(where, ": the tokenizer of kind ", kind.name, " lacks \"", kind.payload, "\".");
  }
  return kind.make(*payload, where);
}

std::shared_ptr<const Tokenizer> make_byte_tokenizer() {
  return std::make_shared<ByteTokenizer>();
}

}  // namespace tost
