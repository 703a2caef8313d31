// A text written out as token files, for this program and others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tost/data/token_data.h"
#include "tost/io/token_file.h"

namespace tost {

struct TokenExportOptions {
  TokenFormat format = TokenFormat::kNanoGpt;
  std::function<void(int64_t bytes, int64_t total)> progress;  // bytes of text read
  std::function<bool()> stop;                                  // asked about once a MiB
};

struct TokenExport {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::map<std::string, int64_t> tokens, bytes;  // by split
};

// Writes OUT/{train,val,test}.bin, those there are, and OUT/tokenizer.json: a folder that open_text
// reads, and that is there whole or not at all. Nothing where `stop` ended it. Throws a usage Error
// if `out` exists and is not an empty folder, the text's path holds tokens already, or the
// vocabulary does not fit 16 bits; those of open_text; and a data Error for a file that cannot be
// written.
std::optional<TokenExport> export_tokens(const TextSpec& spec, const std::string& out,
                                         const TokenExportOptions& options = {});

// The end, after about `wanted` bytes of `text`, of a stretch that can be encoded apart from the
// rest without changing a token: between an ASCII space or newline and a character before it that
// is no white space. The text's end where there is no such place.
size_t stretch_end(std::string_view text, size_t wanted);

}  // namespace tost
