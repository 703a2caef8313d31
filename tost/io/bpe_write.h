// A byte-pair vocabulary as the two files that GPT-2's tokenizer is made from elsewhere.
#pragma once

#include <string>
#include <vector>

namespace tost {

struct BpeFiles {
  std::string vocabulary;  // vocab.json: every token and its id, the end of text last
  std::string merges;      // merges.txt: which two tokens become one, by id
};

// `tokens` by id, all 256 bytes among them. A token is made from the two that the ones before it
// would leave; one of which they leave more (no merge could make it) throws a data Error.
BpeFiles write_bpe_files(const std::vector<std::string>& tokens);

}  // namespace tost
