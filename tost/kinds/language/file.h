// A trained language model in one safetensors file: weights, architecture and tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tost/engine/language_file.h"
#include "tost/kinds/language/model.h"
#include "tost/store/weights_file.h"

namespace tost {

struct LoadedLanguage {
  std::shared_ptr<LanguageModel> model;  // float32, in evaluation mode
  LanguageInfo info;
  std::filesystem::path file;              // the file read
  Precision precision = Precision::kFp32;  // that the file holds its weights in
};

// `path` as for load_model_file, files of torch.save among them. Throws a data Error naming the
// file; for a model of another kind also the kind.
LoadedLanguage load_language_file(const std::filesystem::path& path,
                                  Weights weights = Weights::kRaw);

// Atomic and durable: the old file stays whole on failure.
void save_language_file(const std::filesystem::path& file, const LanguageModel& model,
                        const LanguageInfo& info);

// Reads weights that others have saved (foreign_source.h).
// Throws data Errors in one sentence that names the file, and the tensor where one does not fit.
// Without a tokenizer where the file holds none. Models without LayerScale, nanoGPT's and GPT-2,
// get one of 1.
LoadedLanguage load_foreign_language(const std::filesystem::path& file,
                                     Weights weights = Weights::kRaw);

// The tokenizer that a user may name for a model file without one.
struct TokenizerChoice {
  std::string name{};    // as in training (text_layout.h); empty or auto: the model's
  std::string data{};    // the text that chars and words:N are made from; empty: none
  double holdout = 0.1;  // of that text
};

// Gives a model without a tokenizer the one that was chosen. Throws a usage Error for an unknown
// name, for one that has more tokens than the model, for chars and words without a text, and for
// another tokenizer than the model's (see check_same_tokenizer()).
void choose_tokenizer(const TokenizerChoice& choice, LoadedLanguage& language);

// Throws a usage Error if the tokenizer `name` is not that of the model of `file`.
void check_same_tokenizer(const std::string& name, const LanguageInfo& info,
                          const std::string& file);

}  // namespace tost
