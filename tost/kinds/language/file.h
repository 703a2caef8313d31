// A trained language model in one safetensors file: weights, architecture and tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/engine/language_file.h"
#include "tost/kinds/language/model.h"
#include "tost/store/weights_file.h"

namespace tost {

using LoadedLanguage = Loaded<LanguageModel, LanguageInfo>;

// Loads a model from a path that load_model_file accepts, even a file of torch.save. Throws a data
// Error naming the file, and the kind of a model of another kind.
LoadedLanguage load_language_file(const std::filesystem::path& path,
                                  Weights weights = Weights::kRaw);

// Writes atomically and durably: a failure does not change an old file.
void save_language_file(const std::filesystem::path& file, const LanguageModel& model,
                        const LanguageInfo& info);

// The tokenizer that a user selects for a model file without tokenizer.
struct TokenizerChoice {
  std::string name{};    // as in training (text_layout.h); empty or auto: the model's
  std::string data{};    // the text that chars and words:N are made from; empty: none
  double holdout = 0.1;  // of that text
};

// Sets the selected tokenizer of a model that has none. Throws a usage Error for an unknown name,
// too many tokens, chars and words without a text, and another tokenizer than the model's (see
// check_same_tokenizer()).
void choose_tokenizer(const TokenizerChoice& choice, LoadedLanguage& language);

// Throws a usage Error if the tokenizer `name` is not that of the model of `file`.
void check_same_tokenizer(const std::string& name, const LanguageInfo& info,
                          const std::string& file);

// For `tost bench model`, with the products of LanguageModel::extend() over `tokens` tokens of
// `batch` texts.
std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file);
std::vector<Product> language_products(const LanguageModel& model, int64_t batch, int64_t tokens);

}  // namespace tost
