// The files that GPT-2's vocabulary comes in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tost {

// GPT-2's 50,256 tokens by id, without the end of text. `path`: a ranks file of tiktoken, or a
// folder with one (*.tiktoken) or with vocab.bpe and encoder.json, which are compared. Throws a
// data Error naming file and line.
std::vector<std::string> read_gpt2_tokens(const std::string& path);

// Tokens in base64 with a space between them, and back; the latter throws a data Error naming
// `where` and the token.
std::string tokens_to_base64(const std::vector<std::string>& tokens);
std::vector<std::string> tokens_from_base64(std::string_view text, const std::string& where);

}  // namespace tost
