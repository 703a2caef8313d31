// Rows of `tost bench data` as Markdown, CSV and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/bench/bench_table.h"
#include "tost/study/data_bench.h"

namespace tost {

// {"rows": [...]}, each row flat. Numbers that were not measured are null.
nlohmann::json data_bench_json(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);
std::string data_bench_csv(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);
// "of plain": the rate divided by that of plain decoding. "times the step": the rate divided by
// what training steps consume; above 1 loading keeps up.
std::string data_bench_markdown(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);

}  // namespace tost
