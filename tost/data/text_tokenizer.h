// The tokenizer that a name asks for, made from the text or found next to it.
#pragma once

#include <memory>
#include <string>

#include "tost/data/text_layout.h"
#include "tost/io/tokenizer.h"

namespace tost {

// Throws a usage Error unless `name` is auto, bytes, chars, words:N, gpt2, gpt2:PATH or file:PATH.
void check_tokenizer_name(const std::string& name);

// For a layout of text:
//   auto       chars for a folder whose text is input.txt, in UTF-8 and up to 16 MiB; else bytes
//   chars      the characters of all splits
//   words:N    N ids in all: the most frequent words of the training text, <unk> and <eos>
//   gpt2       its vocabulary from TOST_GPT2, the folder of the data, or gpt2-bpe/ next to that
//   gpt2:PATH  from there (see load_gpt2_tokenizer)
//   file:PATH  see read_tokenizer_file()
std::shared_ptr<const Tokenizer> make_text_tokenizer(const std::string& name,
                                                     const TextLayout& layout);

// For a layout of token files: the one in tokenizer.json for auto (null where there is none), else
// bytes, gpt2 or file as above. A usage Error for those that only a text can give.
std::shared_ptr<const Tokenizer> find_token_tokenizer(const std::string& name,
                                                      const TextLayout& layout);

// As make_text_tokenizer(), but `data` need not be a text: only chars and words:N throw a usage
// Error if it is none or empty, and only gpt2 without a path uses its folder.
std::shared_ptr<const Tokenizer> named_tokenizer(const std::string& name, const std::string& data,
                                                 double holdout);

// A file that holds tokenizer->to_json(). Throws a data Error naming it.
std::shared_ptr<const Tokenizer> read_tokenizer_file(const std::filesystem::path& file);

}  // namespace tost
