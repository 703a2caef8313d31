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

// For `tost bench model`, with the products of LanguageModel::extend() over `tokens` tokens of
// `batch` texts.
std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file);
std::vector<Product> language_products(const LanguageModel& model, int64_t batch, int64_t tokens);

}  // namespace tost
