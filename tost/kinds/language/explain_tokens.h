// Tokens as a reader can see them, and the passage whose inside a report shows.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "tost/data/token_data.h"
#include "tost/kinds/language/file.h"

namespace tost {

// The bytes of a token as visible, valid UTF-8: spaces as "·", line feeds "↵", tabs "⇥", returns
// "␍", bytes that are not a whole character "‹E2›", other control characters "‹01›"; no bytes at
// all "∅". Long tokens are cut to `most` characters and an ellipsis.
std::string visible_piece(std::string_view bytes, int64_t most = 40);

// Of a token; without tokenizer its id as "#17", and so for an id beyond the tokenizer.
std::string visible_token(const Tokenizer* tokenizer, int64_t id);

struct Passage {
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;  // ids as visible_token has them
  std::string source;               // where it comes from, for readers
  std::vector<std::string> notes;   // what was left out and why, one sentence each
};

// The tokens of `text`, whose beginning alone is looked at (256 KiB), then at most `max_tokens` and
// the model's block. `more`: the text continues after what was read. Throws a usage Error for no
// text, a data Error for text that the tokenizer cannot express (naming `source`), or a model
// without tokenizer.
Passage passage_of_text(const LanguageInfo& info, std::string_view text, const std::string& source,
                        int64_t max_tokens, bool more = false);

// The beginning of a file, of which 256 KiB are read at most. Token files (.bin) are read as such.
Passage passage_of_file(const LanguageInfo& info, const std::string& path, int64_t max_tokens);

// The same of a stream of text; `source` names it.
Passage passage_of_stream(const LanguageInfo& info, std::istream& in, const std::string& source,
                          int64_t max_tokens);

// The first tokens of a source. Throws a data Error for ids outside the model's vocabulary.
Passage passage_of_tokens(const LanguageInfo& info, const TokenSource& tokens,
                          const std::string& source, int64_t max_tokens);

}  // namespace tost
