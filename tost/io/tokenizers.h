// All tokenizers. Tokenizers are immutable, and several threads may use one at once.
#pragma once

#include "tost/io/tokenizer.h"

namespace tost {

// The text of the separator, as in GPT-2.
inline constexpr char kEndOfText[] = "<|endoftext|>";

// The tokenizer of bytes: ids 0 to 255 are the bytes, 256 is the end of text. Takes any text.
std::shared_ptr<const Tokenizer> make_byte_tokenizer();

// The tokenizer of characters: ids are ranks of characters by code point, as in character data of
// nanoGPT; there is no end of text. Encoding throws a data Error with the byte offset of an unknown
// character, or of a byte that is not UTF-8.
class CharSet {
 public:
  // Collects the characters of `text`; `where` names the text in the data Error for invalid UTF-8.
  void add(std::string_view text, const std::string& where);
  int64_t size() const;
  std::shared_ptr<const Tokenizer> tokenizer() const;  // a data Error while the set is empty

 private:
  std::vector<bool> seen_;
};

// The tokenizer of words with `size` ids: 0 is `<unk>`, 1 is `<eos>` (the end of a line), and then
// come the most frequent words of `text`. Equally frequent words are in the order of their bytes.
// ASCII white space separates words; the pieces of words begin with a space. A text with fewer
// words gives a smaller vocabulary. Throws a usage Error for a size below 3 or above 2^24, a data
// Error naming `where` for text that is not UTF-8 or has no words. Encoding never fails: other
// words become `<unk>`.
std::shared_ptr<const Tokenizer> make_word_tokenizer(std::string_view text, int64_t size,
                                                     const std::string& where);

// GPT-2's byte-level BPE of 50,257 ids, the last of which is the end of text: identical to
// tiktoken's "gpt2". Bytes that are not UTF-8 do not change; each run of them is a separate piece.
// `path` is a ranks file of tiktoken (lines of `base64(token) rank`), or a folder with a ranks file
// (*.tiktoken) or with vocab.bpe and encoder.json. Throws a data Error naming file and line.
std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(const std::string& path);

// GPT-2's splitting with another vocabulary: the tokens in the order of ids, then the end of text.
// Throws a data Error naming `where` unless all 256 bytes are tokens, and no token is empty, longer
// than 4,096 bytes or repeated.
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(std::vector<std::string> tokens,
                                                    const std::string& where);

// The index of an id's piece. Throws a data Error for an id outside the vocabulary.
size_t checked_id(const Tokenizer& tokenizer, int32_t id);

// Make tokenizers of the payload of to_json(): "characters", "words" or "tokens".
std::shared_ptr<const Tokenizer> char_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where);
std::shared_ptr<const Tokenizer> word_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where);
std::shared_ptr<const Tokenizer> bpe_tokenizer_from_json(const nlohmann::json& payload,
                                                         const std::string& where);

}  // namespace tost
