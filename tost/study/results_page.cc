#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/report/chart.h"
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

namespace {

constexpr double kGap = 16;

double scale_of(const SweepSummary& summary) {
  return metric_view(summary.metric).scale;
}

std::string label_of(const SweepSummary& summary) {
  return metric_view(summary.metric).axis;
}

void add(Series& series, double x, const MeanSpread& value, double scale) {
  if (value.n == 0) return;
  series.x.push_back(x);
  series.y.push_back(scale * value.mean);
  series.spread.push_back(std::isfinite(value.spread) ? scale * value.spread : 0);
}

Drawing dots(const SweepSpec& spec, const SweepSummary& summary) {
  BarChart chart;
  chart.title = spec.title;
  chart.dots = true;
  chart.y.label = label_of(summary);
  Series scores;
  for (const VariantSummary& v : summary.variants) {
    chart.groups.push_back(v.variant);
    scores.y.push_back(v.score.n > 0 ? scale_of(summary) * v.score.mean : std::nan(""));
    scores.spread.push_back(std::isfinite(v.score.spread) ? scale_of(summary) * v.score.spread : 0);
  }
  chart.series.push_back(std::move(scores));
  return draw(chart);
}

Drawing curves(const SweepSpec& spec, const SweepSummary& summary) {
  LineChart chart;
  chart.title = spec.title;
  const bool epochs = summary.metric == "top1";
  chart.x.label = epochs ? "epoch" : "step";
  chart.x.integer = epochs;
  chart.y.label = label_of(summary) + " (validation)";
  for (const VariantSummary& v : summary.variants) {
    Series series{.name = v.variant};
    for (size_t i = 0; i < v.curve.size(); ++i) {
      add(series, double(epochs ? v.epochs[i] : v.steps[i]), v.curve[i], scale_of(summary));
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

Drawing lines_of(const std::string& kind, const SweepSummary& summary) {
  LineChart chart;
  chart.title = kind;
  chart.x.label = "strength";
  chart.x.integer = true;
  chart.y.label = label_of(summary);
  chart.width = 400;
  chart.height = 280;
  for (const VariantSummary& v : summary.variants) {
    Series series{.name = v.variant};
    // Pictures of another split are not a beginning of the line.
    if (summary.corrupted_split == summary.split) add(series, 0, v.score, 100);
    const std::vector<MeanSpread>& values = v.corrupted.at(kind);
    for (size_t s = 0; s < values.size(); ++s) {
      add(series, double(summary.strengths[s]), values[s], 100);
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

// Two charts a row.
Drawing beside_each_other(const std::string& title, const std::vector<Drawing>& parts) {
  Drawing whole;
  whole.description = title + ":";
  for (size_t i = 0; i < parts.size(); ++i) {
    const double dx = i % 2 == 0 ? 0 : parts[i - 1].width + kGap;
    const double dy = double(i / 2) * (parts[i].height + kGap);
    place(whole, parts[i], {dx, dy});
  }
  return whole;
}

}  // namespace

Drawing results_plot(const SweepSpec& spec, const SweepSummary& summary) {
  if (spec.plot == SweepPlot::kDots) return dots(spec, summary);
  if (spec.plot == SweepPlot::kCurve) return curves(spec, summary);
  std::vector<Drawing> parts;
  for (const std::string& kind : summary.kinds) parts.push_back(lines_of(kind, summary));
  return beside_each_other(spec.title, parts);
}

}  // namespace tost
