// The files of results in a sweep's folder.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tost/report/drawing.h"
#include "tost/report/page.h"
#include "tost/study/sweep_summary.h"

namespace tost {

// How the numbers that sweeps compare are written.

struct MetricView {
  std::string heading;  // of a column
  std::string axis;     // of a plot
  double scale;
  int digits;
};

// `metric` of the kind of run (RunKind).
inline MetricView metric_view(const std::string& metric) {
  if (metric == "top1") return {"top-1 %", "top-1, %", 100, 2};
  if (metric == "accuracy") return {"accuracy %", "accuracy, %", 100, 2};
  return {"loss", "loss, nats", 1, 4};
}

// A cell of a table that is aligned as a number.
inline TableCell number_cell(std::string text) {
  return {.text = std::move(text), .number = true};
}

// Names of cases by length or length/pairs, each once, in the order of their numbers.
class CaseNames {
 public:
  void add(const std::string& name);
  std::vector<std::string> ordered() const;

 private:
  std::map<std::pair<int64_t, int64_t>, std::string> names_;
};

// Numbers that are not finite are null.
inline void to_json(nlohmann::json& json, const MeanSpread& value) {
  const auto finite = [](double x) {
    return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json();
  };
  json = {{"n", value.n}, {"mean", finite(value.mean)}, {"spread", finite(value.spread)}};
}

// "91.20 ± 0.34"; without spread of a single run; "–" of none.
std::string show(const MeanSpread& value, double scale, int digits, bool sign = false);
// As text, whatever it holds: no tags, no table cells, no lines of its own.
std::string escape_markdown(const std::string& text);
std::string to_markdown(const Table& table);

// Every run with its settings and scores, and the summary of every variant. Spreads of less than
// two runs are null.
nlohmann::json results_json(const SweepSpec& spec, const SweepSummary& summary,
                            const std::vector<SweepStep>& steps);
// One line a run.
std::string results_csv(const SweepSummary& summary, const std::vector<SweepStep>& steps);

// Variant, parameters, heads and p where there are any, the scores as mean ± spread, the difference
// to the first variant, seeds and seconds; then one table of the corruptions where there are any.
std::vector<Table> results_tables(const SweepSummary& summary);
// What ± means in them; "" where no variant has a spread.
std::string spread_words(const SweepSummary& summary);
std::string results_markdown(const SweepSpec& spec, const SweepSummary& summary,
                             const std::vector<SweepStep>& steps);
Drawing results_plot(const SweepSpec& spec, const SweepSummary& summary);
Page results_page(const SweepSpec& spec, const SweepSummary& summary,
                  const std::vector<SweepStep>& steps, const std::string& command);

// Writes results.json, results.csv, results.md, plot.svg, plot.png and index.html, each whole or
// not at all. `command` is what makes the sweep, for the page. Throws a data Error when one cannot
// be written.
void write_results(const SweepSpec& spec, const SweepPlan& plan,
                   const std::vector<SweepStep>& steps, const std::filesystem::path& out,
                   const std::string& command);

}  // namespace tost
