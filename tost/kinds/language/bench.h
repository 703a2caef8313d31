// Measures language models for `tost bench model`.
#pragma once

#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/kinds/language/model.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file);

// The matrix products of LanguageModel::extend() over `tokens` tokens of `batch` texts.
std::vector<Product> language_products(const LanguageModel& model, int64_t batch, int64_t tokens);

}  // namespace tost
