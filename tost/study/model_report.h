// Rows of `tost bench model` as Markdown and JSON, and two runs side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/bench/bench_table.h"
#include "tost/study/model_bench.h"

namespace tost {

// {"rows": [...]}, each row flat. Numbers that were not measured are null.
nlohmann::json model_bench_json(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin);
// One table, and below it where it was measured. "of floor": the time of the matrix products alone
// divided by the whole; "of read": the time to read the weights once divided by the whole.
std::string model_bench_markdown(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin);

// The share of each kind of work in the time of the rows in which it was measured; "" where there
// are none.
std::string model_work_markdown(const std::vector<ModelBenchRow>& rows);

struct BenchChange {
  std::string what;  // the configuration in words
  double before_ms = 0, after_ms = 0;
  double ratio = 0;     // before over after: above 1 is faster
  std::string verdict;  // "faster", "slower", or where the quartiles meet "no difference"
};

// Rows of both, in the order of `after`. Throws a data Error naming `where` unless `before` is JSON
// of model_bench_json().
std::vector<BenchChange> compare_model_bench(const nlohmann::json& before,
                                             const nlohmann::json& after, const std::string& where);
std::string changes_markdown(const std::vector<BenchChange>& changes);

}  // namespace tost
