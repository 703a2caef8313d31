#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/parse_json.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

using nlohmann::json;

json to_json(const std::vector<MeanSpread>& values) {
  json list = json::array();
  for (const MeanSpread& value : values) list.push_back(to_json(value));
  return list;
}

json to_json(const VariantSummary& v) {
  json scores = json::object(), corrupted = json::object();
  for (const auto& [name, value] : v.scores) scores[name] = to_json(value);
  for (const auto& [kind, values] : v.corrupted) {
    corrupted[kind] = {{"by_strength", to_json(values)},
                       {"mean", to_json(v.corrupted_mean.at(kind))}};
  }
  return {{"variant", v.variant},
          {"parameters", v.parameters},
          {"heads", v.heads ? json(*v.heads) : json()},
          {"head_width", v.head_width ? json(*v.head_width) : json()},
          {"scores", scores},
          {"difference", to_json(v.difference)},
          {"corrupted", corrupted},
          {"seconds", to_json(v.seconds)},
          {"cpu_seconds", to_json(v.cpu_seconds)},
          {"curve", {{"steps", v.steps}, {"epochs", v.epochs}, {"values", to_json(v.curve)}}},
          {"failed", v.failed}};
}

std::string csv_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json_text(json(*value)) : "";
}

std::string csv_line(const SweepSummary& summary, const SweepStep& step,
                     const std::vector<std::string>& scores) {
  const RunRecord record = step.record.value_or(RunRecord());
  const auto state = step.record ? tost::to_json(record)["state"].get<std::string>() : "planned";
  std::string line = cat(csv_field(step.run.variant), ",", step.run.seed, ",", state, ",",
                         record.parameters > 0 ? cat(record.parameters) : "");
  for (const std::string& name : scores) {
    const auto found = record.scores.find(name);
    line += "," + (found == record.scores.end() ? "" : csv_number(found->second));
  }
  const bool timed = step.record && record.state != RunState::kFailed;
  line += "," + (timed ? csv_number(record.seconds) : "");
  line += "," + (timed ? csv_number(record.cpu_seconds) : "");
  for (const std::string& kind : summary.kinds) {
    const auto found = record.corrupted.find(kind);
    for (size_t s = 0; s < summary.strengths.size(); ++s) {
      const bool has = found != record.corrupted.end() && s < found->second.size();
      line += "," + (has ? csv_number(found->second[s]) : "");
    }
  }
  return line + "," + csv_field(record.error) + "\n";
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

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

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
  std::string text = "variant,seed,state,parameters";
  for (const std::string& name : scores) text += "," + name;
  text += ",seconds,cpu_seconds";
  for (const std::string& kind : summary.kinds) {
    for (int64_t strength : summary.strengths) text += cat(",", kind, "_", strength);
  }
  text += ",error\n";
  for (const SweepStep& step : steps) text += csv_line(summary, step, scores);
  return text;
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

}  // namespace tost
