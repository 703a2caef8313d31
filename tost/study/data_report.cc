#include "tost/study/data_report.h"

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

BenchRowJson row_json(const DataBenchRow& r, const BenchOrigin& origin) {
  const bool stepped = !r.step_model.empty();
  BenchRowJson row{{"source", r.source},
                   {"recipe", r.recipe},
                   {"size", r.size},
                   {"batch", r.batch},
                   {"workers", r.workers},
                   {"median", measured(r.median)},
                   {"low", measured(r.low)},
                   {"high", measured(r.high)},
                   {"unit", r.unit},
                   {"repeat", r.rates.size()},
                   {"processor_us", measured(r.processor_us)},
                   {"plain", measured(r.plain)},
                   {"of_plain", measured(r.median / r.plain)},
                   {"deviation", r.deviation},
                   {"step_model", stepped ? BenchRowJson(r.step_model) : BenchRowJson()},
                   {"step_precision", stepped ? BenchRowJson(r.step_precision) : BenchRowJson()},
                   {"step_threads", stepped ? BenchRowJson(r.step_threads) : BenchRowJson()},
                   {"step", measured(r.step)},
                   {"times_the_step", measured(r.median / r.step)}};
  add_origin(row, origin);
  return row;
}

std::string rate(double value) {
  return value < 1e5 ? three_digits(value) : three_digits(value / 1e6) + " M";
}

std::string ratio(double value, double of) {
  return of > 0 ? number("%.2f", value / of) : "–";
}

std::string markdown_row(const DataBenchRow& r) {
  const bool stepped = !r.step_model.empty();
  const std::vector<std::string> cells{
      r.source,
      r.recipe,
      std::to_string(r.size),
      std::to_string(r.workers),
      cat(rate(r.median), " [", rate(r.low), ", ", rate(r.high), "] ", r.unit),
      r.processor_us < 1 ? cat(three_digits(1e3 * r.processor_us), " ns")
                         : cat(three_digits(r.processor_us), " µs"),
      r.plain > 0 ? rate(r.plain) : "–",
      ratio(r.median, r.plain),
      stepped ? cat(rate(r.step), " (", r.step_model, ", ", r.step_precision, ", ", r.step_threads,
                    r.step_threads == 1 ? " thread)" : " threads)")
              : "–",
      ratio(r.median, r.step),
      r.deviation > 0 ? number("%.1f", r.deviation) : "0"};
  return cat("| ", join(cells, " | "), " |\n");
}

}  // namespace

nlohmann::json data_bench_json(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  return json_table(rows, [&](const DataBenchRow& row) {
    BenchRowJson json = row_json(row, origin);
    json["rates"] = row.rates;
    return json;
  });
}

std::string data_bench_csv(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  return csv_table(rows, [&](const DataBenchRow& row) { return row_json(row, origin); });
}

std::string data_bench_markdown(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  std::string text =
      "| source | recipe | size | workers | rate [quartiles] | processor time each | plain decode "
      "| of plain | a training step's | times the step | grey levels off |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& row : rows) text += markdown_row(row);
  return text + "\n" + origin_line(origin);
}

}  // namespace tost
