// Loads the tokens on which a language model is scored: a split of a text, by the protocol.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/language_file.h"
#include "tost/io/token_data.h"

namespace tost {

struct LanguageTextSpec {
  std::string path;  // text or token files (see text_layout.h), or rows (.jsonl) with a "text" each
  // The split: train, validation, test or whole. An empty split means the test split of a folder
  // (or else the validation split), or a whole file. For the model's training text it means the
  // validation split.
  std::string split{};
  double holdout = 0.1;  // where the text has no validation file
  // The official protocol: an end of text after every line or row. Lines include their newline; a
  // blank line becomes an end of text only. Token files are not changed.
  bool rows = false;
};

struct LanguageText {
  std::shared_ptr<const TokenSource> tokens;
  int64_t bytes = 0;  // of text; 0: unknown
  std::string split;  // "" for rows
};

// Rows always end in an end of text. Throws a usage Error for rows with a tokenizer that has no end
// of text. Throws data Errors for text without a tokenizer, for text that cannot be encoded, and
// for token files of another tokenizer.
LanguageText load_language_text(const LanguageTextSpec& spec, const LanguageInfo& info);

// A row of a data set in JSON Lines, which has an object in each line.
struct JsonRow {
  nlohmann::json object;
  std::string where;  // "'FILE' line N", for messages
};

// Returns `path` itself, or the only .jsonl file of a folder. Throws a data Error if a
// folder has none or several.
std::filesystem::path find_rows_file(const std::filesystem::path& path);

// Reads all rows, skipping blank lines. Throws a data Error naming file and line for a line that is
// no JSON object, and for a file without rows.
std::vector<JsonRow> read_rows(const std::filesystem::path& file);

// The string under a key of the row. Throws a data Error if the row has no such string.
std::string string_of(const JsonRow& row, const std::string& key);

// The tokenizer that a user selects for a model file without tokenizer.
struct TokenizerChoice {
  std::string name{};    // as in training (text_layout.h); empty or auto: the model's
  std::string data{};    // the text that chars and words:N are made from; empty: none
  double holdout = 0.1;  // of that text
};

// Sets the selected tokenizer of a model that has none. Throws a usage Error for an unknown name,
// too many tokens, chars and words without a text, and another tokenizer than the model's (see
// check_same_tokenizer()).
void choose_tokenizer(const TokenizerChoice& choice, LanguageInfo& info, const std::string& file);

// Throws a usage Error if the tokenizer `name` is not that of the model of `file`.
void check_same_tokenizer(const std::string& name, const LanguageInfo& info,
                          const std::string& file);

}  // namespace tost
