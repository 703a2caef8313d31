#include "tost/kinds/language/tokenizer.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/text_layout.h"

namespace tost {

void choose_tokenizer(const TokenizerChoice& choice, LoadedLanguage& language) {
  if (choice.name.empty()) return;
  check_tokenizer_name(choice.name);
  LanguageInfo& info = language.info;
  if (choice.name == "auto" || info.tokenizer != nullptr) {
    return check_own_tokenizer(choice.name, info, language.file.string());
  }
  const auto tokenizer = named_tokenizer(choice.name, choice.data, choice.holdout);
  if (tokenizer->vocab_size() > info.config.vocab) {
    fail_usage("The tokenizer ", choice.name, " has ", human_number(tokenizer->vocab_size()),
               " tokens but the model of '", language.file.string(), "' ",
               human_number(info.config.vocab), "; give the one it was trained with.");
  }
  info.tokenizer = tokenizer;
}

void check_own_tokenizer(const std::string& name, const LanguageInfo& info,
                         const std::string& file) {
  if (name == "auto" || info.tokenizer == nullptr) return;
  const std::string kind = info.tokenizer->kind();
  const std::string own = kind == "words" ? cat("words:", info.tokenizer->vocab_size()) : kind;
  if (name == own || (kind == "gpt2" && starts_with(name, "gpt2:"))) return;
  fail_usage("'", file, "' was trained with tokenizer ", own, " and cannot continue with ", name,
             "; leave tokenizer out.");
}

const Tokenizer& needed_tokenizer(const LanguageInfo& info, const std::string& undone) {
  if (info.tokenizer != nullptr) return *info.tokenizer;
  fail_data("The model has no tokenizer, so that ", undone,
            "; name the one it was trained with by --tokenizer, as gpt2:FOLDER for GPT-2's, or "
            "give token files of its vocabulary.");
}

}  // namespace tost
