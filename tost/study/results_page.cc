#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/study/metric_view.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

std::string state_words(const std::vector<SweepStep>& steps) {
  int64_t done = 0, failed = 0;
  for (const SweepStep& step : steps) {
    if (!step.record) continue;
    done += step.record->state == RunState::kDone ? 1 : 0;
    failed += step.record->error.empty() ? 0 : 1;
  }
  std::string words =
      cat(done, " of ", steps.size(), steps.size() == 1 ? " run done" : " runs done");
  return failed > 0 ? cat(words, ", ", failed, " failed") : words;
}

Table runs_table(const SweepSummary& summary, const std::vector<SweepStep>& steps) {
  Table table;
  table.header = {"variant", "seed", metric_view(summary.metric).heading, "state"};
  for (const SweepStep& step : steps) {
    std::string state = "planned", score = "–";
    if (step.record) {
      const RunRecord& record = *step.record;
      state = record.error.empty() ? to_json(record)["state"].get<std::string>() : record.error;
      const auto found = record.scores.find(summary.metric);
      if (found != record.scores.end()) {
        const MetricView view = metric_view(summary.metric);
        score = format_text("%.*f", view.digits, view.scale * found->second);
      }
    }
    table.rows.push_back({{.text = step.run.variant},
                          {.text = cat(step.run.seed), .number = true},
                          {.text = score, .number = true},
                          {.text = state}});
  }
  return table;
}

}  // namespace

Page results_page(const SweepSpec& spec, const SweepSummary& summary,
                  const std::vector<SweepStep>& steps, const std::string& command) {
  Page page(spec.title, state_words(steps));
  page.section("results", "Results", spec.note);
  for (const Table& table : results_tables(summary)) page.table(table);
  if (const std::string words = spread_words(summary); !words.empty()) page.paragraph(words);
  page.chart("plot", results_plot(spec, summary));
  page.section("runs", "Runs");
  page.facts({{"Command", command}, {"Every number", "results.json, results.csv"}});
  page.table(runs_table(summary, steps));
  return page;
}

}  // namespace tost
