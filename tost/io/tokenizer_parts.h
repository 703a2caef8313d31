// What the tokenizers share inside: their JSON, and the error for an id outside the vocabulary.
#pragma once

#include "tost/io/tokenizers.h"

namespace tost {

// The piece's index, or a data Error.
size_t checked_id(const Tokenizer& tokenizer, int32_t id);

// Each takes the payload of to_json(): "characters", "words" or "tokens".
std::shared_ptr<const Tokenizer> char_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where);
std::shared_ptr<const Tokenizer> word_tokenizer_from_json(const nlohmann::json& payload,
                                                          const std::string& where);
std::shared_ptr<const Tokenizer> bpe_tokenizer_from_json(const nlohmann::json& payload,
                                                         const std::string& where);

}  // namespace tost
