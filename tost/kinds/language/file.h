// A trained language model in one safetensors file: weights, architecture and tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tost/io/tokenizer.h"
#include "tost/kinds/language/config.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"

namespace tost {

struct LanguageInfo {
  LanguageConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;          // null: token ids without a text form
  nlohmann::json training = nlohmann::json::object();  // facts about its training, free in form
};

struct LoadedLanguage {
  std::shared_ptr<LanguageModel> model;  // float32, in evaluation mode
  LanguageInfo info;
  std::filesystem::path file;              // the file read
  Precision precision = Precision::kFp32;  // that the file holds its weights in
};

nlohmann::json to_json(const LanguageInfo& info);
// Reads a description. Throws a data Error naming `where` for unknown or missing keys, wrong types,
// impossible values, and a tokenizer with more tokens than the model.
LanguageInfo language_info_from_json(const nlohmann::json& json, const std::string& where);

// Writes a description as metadata of a safetensors file: "tost.kind": "language", "tost.config",
// "tost.tokenizer", "tost.training" (JSON texts) and "format": "pt".
std::map<std::string, std::string> to_metadata(const LanguageInfo& info);

// Loads a model from `path`, as load_model_file() does. Throws a data Error naming the file, and
// the kind if it is another one.
LoadedLanguage load_language_file(const std::filesystem::path& path,
                                  Weights weights = Weights::kRaw);

// Saves atomically and durably: an old file stays whole on failure.
void save_language_file(const std::filesystem::path& file, const LanguageModel& model,
                        const LanguageInfo& info);

// Reads weights that others have saved (foreign_source.h). Throws data Errors in one sentence that
// names the file, and the tensor where one does not fit. The result has no tokenizer if the file
// holds none. Models without LayerScale (nanoGPT, GPT-2) get one of 1.
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

// The model's tokenizer. If it has none, throws a data Error that says what is impossible, `undone`
// ("no passage can be read").
const Tokenizer& needed_tokenizer(const LanguageInfo& info, const std::string& undone);

}  // namespace tost
