#include <algorithm>
#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/bench/bench_table.h"
#include "tost/io/parse_json.h"
#include "tost/study/run_score.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

using nlohmann::json;

json to_json(const VariantSummary& v) {
  json corrupted = json::object();
  for (const auto& [kind, values] : v.corrupted) {
    corrupted[kind] = {{"by_strength", values}, {"mean", v.corrupted_mean.at(kind)}};
  }
  json object = TOST_MEMBERS(v, variant, parameters, heads, head_width, scores, difference, seconds,
                             cpu_seconds, failed);
  object["corrupted"] = std::move(corrupted);
  object["curve"] = {{"steps", v.steps}, {"epochs", v.epochs}, {"values", v.curve}};
  return object;
}

// Nothing for what is not there or not finite.
BenchRowJson number_if_finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? BenchRowJson(*value) : BenchRowJson();
}

BenchRowJson csv_row(const SweepSummary& summary, const SweepStep& step,
                     const std::vector<std::string>& scores) {
  const RunRecord record = step.record.value_or(RunRecord());
  const bool timed = step.record && record.state != RunState::kFailed;
  BenchRowJson row{{"variant", step.run.variant}, {"seed", step.run.seed}};
  row["state"] = step.record ? tost::to_json(record)["state"].get<std::string>() : "planned";
  row["parameters"] = record.parameters > 0 ? BenchRowJson(record.parameters) : BenchRowJson();
  for (const std::string& name : scores) {
    const auto found = record.scores.find(name);
    const bool has = found != record.scores.end();
    row[name] = number_if_finite(has ? std::optional(found->second) : std::nullopt);
  }
  row["seconds"] = number_if_finite(timed ? record.seconds : std::nullopt);
  row["cpu_seconds"] = number_if_finite(timed ? record.cpu_seconds : std::nullopt);
  for (const std::string& kind : summary.kinds) {
    const auto found = record.corrupted.find(kind);
    for (size_t s = 0; s < summary.strengths.size(); ++s) {
      const bool has = found != record.corrupted.end() && s < found->second.size();
      row[cat(kind, "_", summary.strengths[s])] =
          number_if_finite(has ? std::optional(found->second[s]) : std::nullopt);
    }
  }
  row["error"] = record.error;
  return row;
}

// The scores that the runs have: the usual ones first, then those of single cases.
std::vector<std::string> score_columns(const SweepSummary& summary,
                                       const std::vector<SweepStep>& steps) {
  std::set<std::string> found;
  for (const SweepStep& step : steps) {
    if (!step.record) continue;
    for (const auto& [name, value] : step.record->scores) found.insert(name);
  }
  if (found.empty()) found.insert(summary.metric);
  std::vector<std::string> columns;
  for (const char* name : {"top1", "top5", "accuracy", "exact", "loss"}) {
    if (found.erase(name) > 0) columns.emplace_back(name);
  }
  columns.insert(columns.end(), found.begin(), found.end());
  return columns;
}

}  // namespace

json results_json(const SweepSpec& spec, const SweepSummary& summary,
                  const std::vector<SweepStep>& steps) {
  json runs = json::array(), variants = json::array();
  for (const SweepStep& step : steps) {
    json run = step.record ? tost::to_json(*step.record)
                           : json{{"state", "planned"}, {"settings", step.run.settings}};
    run["variant"] = step.run.variant;
    run["seed"] = step.run.seed;
    run["folder"] = step.run.folder.generic_string();
    runs.push_back(std::move(run));
  }
  for (const VariantSummary& v : summary.variants) variants.push_back(to_json(v));
  return {{"title", spec.title},      {"note", spec.note},
          {"metric", summary.metric}, {"strengths", summary.strengths},
          {"variants", variants},     {"runs", runs}};
}

std::string results_csv(const SweepSummary& summary, const std::vector<SweepStep>& steps) {
  const std::vector<std::string> scores = score_columns(summary, steps);
  return csv_table(steps, [&](const SweepStep& step) { return csv_row(summary, step, scores); });
}

void write_results(const SweepSpec& spec, const SweepPlan& plan,
                   const std::vector<SweepStep>& steps, const std::filesystem::path& out,
                   const std::string& command) {
  const SweepSummary summary = summarize(spec, plan, steps);
  const auto write = [&](const char* name, const std::string& bytes) {
    write_file_atomic(out / name, bytes);
  };
  const json results = results_json(spec, summary, steps);
  write("results.json", json_text(results, 2) + "\n");
  write("results.csv", results_csv(summary, steps));
  write("results.md", results_markdown(spec, summary, steps));
  const Drawing plot = results_plot(spec, summary);
  write("plot.svg", to_svg_file(plot));
  write("plot.png", encode_png(to_image(plot)));
  write("index.html", results_page(spec, summary, steps, command).html());
}

namespace {

std::string fixed(double value, int digits, bool sign = false) {
  return format_text(sign ? "%+.*f" : "%.*f", digits, value);
}

bool any_heads(const SweepSummary& summary) {
  for (const VariantSummary& v : summary.variants) {
    if (v.heads) return true;
  }
  return false;
}

std::string count_of(const VariantSummary& v) {
  return v.failed == 0 ? cat(v.by_seed.size()) : cat(v.by_seed.size(), " (", v.failed, " failed)");
}

Table main_table(const SweepSummary& summary) {
  const bool pictures = summary.metric == "top1";
  const MetricView main = metric_view(summary.metric), loss = metric_view("loss");
  const bool heads = any_heads(summary);
  Table table;
  table.header = {"variant", "parameters"};
  if (heads) table.header.insert(table.header.end(), {"heads", "p"});
  table.header.push_back(main.heading);
  table.header.push_back("difference to " + summary.variants.front().variant);
  if (pictures) table.header.push_back(loss.heading);
  table.header.insert(table.header.end(), {"seeds", "seconds", "CPU s"});
  for (const VariantSummary& v : summary.variants) {
    std::vector<TableCell> row{{.text = v.variant, .strong = true}};
    row.push_back(number_cell(v.parameters > 0 ? human_number(v.parameters) : "–"));
    if (heads) {
      row.push_back(number_cell(v.heads ? cat(*v.heads) : "–"));
      row.push_back(number_cell(v.head_width ? cat(*v.head_width) : "–"));
    }
    row.push_back(number_cell(show(v.score, main.scale, main.digits)));
    row.push_back(number_cell(show(v.difference, main.scale, main.digits, true)));
    if (pictures) {
      const auto found = v.scores.find("loss");
      row.push_back(
          number_cell(found == v.scores.end() ? "–" : show(found->second, 1, loss.digits)));
    }
    row.push_back(number_cell(count_of(v)));
    row.push_back(number_cell(show({v.seconds.n, v.seconds.mean, NAN}, 1, 0)));
    row.push_back(number_cell(show({v.cpu_seconds.n, v.cpu_seconds.mean, NAN}, 1, 0)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table corruption_table(const SweepSummary& summary) {
  Table table;
  table.caption = "Top-1 % under corruption, mean over the strengths";
  if (summary.corrupted_split != summary.split) {
    table.caption += cat(" (", summary.corrupted_split, "; whole pictures: ", summary.split, ")");
  }
  table.header = {"variant", "whole"};
  for (const std::string& kind : summary.kinds) table.header.push_back(kind);
  for (const VariantSummary& v : summary.variants) {
    std::vector<TableCell> row{{.text = v.variant, .strong = true},
                               number_cell(show(v.score, 100, 2))};
    for (const std::string& kind : summary.kinds) {
      row.push_back(number_cell(show(v.corrupted_mean.at(kind), 100, 2)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Of the scores of single lengths, "accuracy 64" or "accuracy 64/4".
std::vector<std::string> case_names(const SweepSummary& summary) {
  CaseNames names;
  for (const VariantSummary& v : summary.variants) {
    for (const auto& [name, value] : v.scores) {
      if (!starts_with(name, kCaseScore)) continue;
      names.add(name.substr(std::string(kCaseScore).size()));
    }
  }
  return names.ordered();
}

Table case_table(const SweepSummary& summary, const std::vector<std::string>& names) {
  Table table;
  table.caption = "Accuracy % by length, or length/pairs";
  table.header = {"variant"};
  table.header.insert(table.header.end(), names.begin(), names.end());
  for (const VariantSummary& v : summary.variants) {
    std::vector<TableCell> row{{.text = v.variant, .strong = true}};
    for (const std::string& name : names) {
      const auto found = v.scores.find(kCaseScore + name);
      row.push_back(number_cell(found == v.scores.end() ? "–" : show(found->second, 100, 2)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::string show(const MeanSpread& value, double scale, int digits, bool sign) {
  if (value.n == 0 || !std::isfinite(value.mean)) return "–";
  const std::string mean = fixed(scale * value.mean, digits, sign);
  return std::isfinite(value.spread) ? mean + " ± " + fixed(scale * value.spread, digits) : mean;
}

void CaseNames::add(const std::string& name) {
  const size_t slash = std::min(name.find('/'), name.size() - 1);
  names_[{std::atoll(name.c_str()), std::atoll(name.c_str() + slash + 1)}] = name;
}

std::vector<std::string> CaseNames::ordered() const {
  std::vector<std::string> names;
  for (const auto& [size, name] : names_) names.push_back(name);
  return names;
}

std::string escape_markdown(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '|') {
      escaped += "\\|";
    } else {
      escaped += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  return escaped;
}

std::string to_markdown(const Table& table) {
  std::string text = table.caption.empty() ? "" : table.caption + ":\n\n";
  text += "|";
  for (const std::string& name : table.header) text += cat(" ", escape_markdown(name), " |");
  text += "\n|";
  for (size_t i = 0; i < table.header.size(); ++i) {
    text += !table.rows.empty() && table.rows.front()[i].number ? "---:|" : "---|";
  }
  text += "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const TableCell& cell : row) text += cat(" ", escape_markdown(cell.text), " |");
    text += "\n";
  }
  return text;
}

std::vector<Table> results_tables(const SweepSummary& summary) {
  std::vector<Table> tables{main_table(summary)};
  if (!summary.kinds.empty()) tables.push_back(corruption_table(summary));
  const std::vector<std::string> cases = case_names(summary);
  if (!cases.empty()) tables.push_back(case_table(summary, cases));
  return tables;
}

std::string spread_words(const SweepSummary& summary) {
  const auto has_spread = [](const VariantSummary& v) { return std::isfinite(v.score.spread); };
  if (std::none_of(summary.variants.begin(), summary.variants.end(), has_spread)) return "";
  return "± is the sample standard deviation over seeds, whose mean errs by ± / √seeds; "
         "differences "
         "are taken seed by seed.";
}

std::string results_markdown(const SweepSpec& spec, const SweepSummary& summary,
                             const std::vector<SweepStep>& steps) {
  std::string text = cat("# ", escape_markdown(spec.title), "\n");
  if (!spec.note.empty()) text += cat("\n", escape_markdown(spec.note), "\n");
  for (const Table& table : results_tables(summary)) text += cat("\n", to_markdown(table));
  if (const std::string words = spread_words(summary); !words.empty())
    text += cat("\n", words, "\n");
  for (const SweepStep& step : steps) {
    if (!step.record || step.record->error.empty()) continue;
    text += cat("\nFailed: ", step.run.variant, ", seed ", step.run.seed, ": ",
                escape_markdown(step.record->error), "\n");
  }
  return text;
}

}  // namespace tost
