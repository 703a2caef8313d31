// The tokenizer that a language model reads by, where its file may hold none.
#pragma once

#include <string>

#include "tost/kinds/language/file.h"

namespace tost {

// What a user may name for a model whose file holds no tokenizer.
struct TokenizerChoice {
  std::string name{};    // as in training (text_layout.h); empty or auto: the model's own
  std::string data{};    // the text that chars and words:N are made from; empty: none
  double holdout = 0.1;  // of that text
};

// Gives a model without a tokenizer the one that was chosen. Throws a usage Error for an unknown
// name, for one that has more tokens than the model, for chars and words without a text, and for
// another tokenizer than the model's own (see check_own_tokenizer()).
void choose_tokenizer(const TokenizerChoice& choice, LoadedLanguage& language);

// Throws a usage Error where `name`, a tokenizer's, says another one than the model of `file` has.
void check_own_tokenizer(const std::string& name, const LanguageInfo& info,
                         const std::string& file);

// The model's tokenizer. Throws a data Error where it has none, so that `undone` ("no passage can
// be read").
const Tokenizer& needed_tokenizer(const LanguageInfo& info, const std::string& undone);

}  // namespace tost
