// How `tost bench model` measures language models.
#pragma once

#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/kinds/language/model.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file);

// The products of LanguageModel::extend() over `tokens` of each of `batch` texts.
std::vector<Product> language_products(const LanguageModel& model, int64_t batch, int64_t tokens);

}  // namespace tost
