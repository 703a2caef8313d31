// A text written out as token files, for this program and others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tost/data/export.h"
#include "tost/data/token_data.h"
#include "tost/io/token_file.h"

namespace tost {

// Progress is in bytes of text.
struct TokenExportOptions : ExportOptions {
  TokenFormat format = TokenFormat::kNanoGpt;
};

struct TokenExport {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::map<std::string, int64_t> tokens, bytes;  // by split
};

// Writes OUT/{train,val,test}.bin, those there are, and OUT/tokenizer.json: a NewFolder that
// open_text reads. Returns nothing if `stop` ended it. Throws a usage Error if the text's path
// holds tokens already, or the vocabulary does not fit 16 bits; those of NewFolder and open_text;
// and a data Error for a file that cannot be written.
std::optional<TokenExport> export_tokens(const TextSpec& spec, const std::string& out,
                                         const TokenExportOptions& options = {});

// The end, after about `wanted` bytes of `text`, of a stretch that can be encoded apart from the
// rest without changing a token: between an ASCII space or newline and a character before it that
// is no white space. The text's end where there is no such place.
size_t stretch_end(std::string_view text, size_t wanted);

}  // namespace tost
