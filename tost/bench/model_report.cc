// Rows of `tost bench model` as Markdown and JSON.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/bench/model_bench.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;

// The value, or null if it is not finite and positive, which means not measured.
json measured(double value) {
  return value > 0 && std::isfinite(value) ? json(value) : json();
}

// Formats cells as the line "| a | b |" of a Markdown table.
std::string markdown_line(const std::vector<std::string>& cells) {
  return cat("| ", join(cells, " | "), " |\n");
}

// Formats a number with three significant digits and without an exponent.
std::string three_digits(double value) {
  return format_text(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
}

// Formats a share as "12 %", or as "–" if `part` was not measured.
std::string share(double part, double whole) {
  return part > 0 ? format_text("%.0f %%", 100 * part / whole) : "–";
}

json row_json(const ModelBenchRow& r, const BenchOrigin& o) {
  json row = TOST_MEMBERS(r, model, kind, mixer, test, batch, size, threads, device, precision,
                          engine, unit, times_ms);
  row.update(TOST_MEMBERS(o, cpu, features, isa, version, commit, build, compiler, torch, date));
  const bool done = r.missing.empty();
  row["missing"] = done ? json() : json(r.missing);
  row["median_ms"] = measured(r.median_ms);
  row["low_ms"] = measured(r.low_ms);
  row["high_ms"] = measured(r.high_ms);
  row["repeat"] = r.times_ms.size();
  row["rate"] = measured(r.rate);
  row["error"] = done ? json(r.error) : json();
  row["peak_resident_bytes"] = r.peak_bytes > 0 ? json(r.peak_bytes) : json();
  row["weight_bytes"] = r.weight_bytes > 0 ? json(r.weight_bytes) : json();
  row["products_ms"] = measured(r.products_ms);
  row["products_gflop"] = measured(r.products_gflop);
  row["read_ms"] = measured(r.read_ms);
  row["read_gb_per_s"] = measured(double(r.weight_bytes) / r.read_ms / 1e6);
  // The time of each kind of work, such as work_products_ms.
  const bool worked = r.work_total_ms > 0;
  for (int k = 0; k < kernels::kWorkKinds; ++k) {
    std::string name = kernels::work_name(static_cast<kernels::Work>(k));
    std::replace(name.begin(), name.end(), ' ', '_');
    row[cat("work_", name, "_ms")] = worked ? json(r.work_ms[size_t(k)]) : json();
  }
  row["work_rest_ms"] = worked ? json(r.work_rest_ms()) : json();
  return row;
}

std::string path_of(bool engine) {
  return engine ? "engine" : "plain";
}

std::string markdown_row(const ModelBenchRow& r) {
  std::vector<std::string> cells{r.model,
                                 r.mixer,
                                 r.test,
                                 std::to_string(r.batch),
                                 std::to_string(r.size),
                                 r.device == "cpu" ? std::to_string(r.threads) : r.device,
                                 name_of(r.precision),
                                 path_of(r.engine)};
  if (!r.missing.empty()) {
    cells.insert(cells.end(), {"–", "–", "–", "–", "–", r.missing});
  } else {
    cells.insert(
        cells.end(),
        {cat(three_digits(r.median_ms), " [", three_digits(r.low_ms), ", ", three_digits(r.high_ms),
             "]"),
         cat(format_text(r.rate < 100 ? "%.1f" : "%.0f", r.rate), " ", r.unit),
         share(r.products_ms, r.median_ms), share(r.read_ms, r.median_ms),
         r.peak_bytes > 0 ? human_bytes(r.peak_bytes) : "–", format_text("%.1e", r.error)});
  }
  return markdown_line(cells);
}

// The fields that identify a row, to find the same row in another run.
std::string key_of(const json& row) {
  std::string key;
  for (const char* name : {"model", "mixer", "test", "batch", "size", "threads", "precision"}) {
    const auto& value = row.at(name);
    key += (value.is_string() ? value.get<std::string>() : json_text(value)) + ", ";
  }
  const auto device = row.value("device", std::string("cpu"));  // older files do not contain it
  key += path_of(row.at("engine").get<bool>());
  return device == "cpu" ? key : cat(key, ", ", device);
}

BenchChange change_of(const json& before, const json& after) {
  BenchChange change;
  change.what = key_of(after);
  change.before_ms = before.at("median_ms").get<double>();
  change.after_ms = after.at("median_ms").get<double>();
  change.ratio = change.before_ms / change.after_ms;
  change.verdict = "no difference";
  if (after.at("high_ms").get<double>() < before.at("low_ms").get<double>()) {
    change.verdict = "faster";
  }
  if (after.at("low_ms").get<double>() > before.at("high_ms").get<double>()) {
    change.verdict = "slower";
  }
  return change;
}

}  // namespace

json model_bench_json(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin) {
  json list = json::array();
  for (const auto& row : rows) list.push_back(row_json(row, origin));
  return {{"rows", std::move(list)}};
}

std::string model_bench_markdown(const std::vector<ModelBenchRow>& rows, const BenchOrigin& o) {
  std::string text =
      "| model | mixer | test | batch | size | threads | precision | path | ms [quartiles] | rate "
      "| of floor | of read | peak memory | error |\n"
      "|---|---|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& row : rows) text += markdown_row(row);
  return cat(text, "\n", o.cpu, " (", o.features, "); kernels ", o.isa, "; tost ", o.version, " ",
             o.commit, ", ", o.build, ", ", o.compiler, ", ",
             o.torch.empty() ? "no torch" : cat("torch ", o.torch), "; ", o.date, "\n");
}

std::string model_work_markdown(const std::vector<ModelBenchRow>& rows) {
  std::vector<std::string> head{"model", "test", "batch", "size", "precision", "ms"};
  for (int k = 0; k < kernels::kWorkKinds; ++k) {
    head.emplace_back(kernels::work_name(static_cast<kernels::Work>(k)));
  }
  head.emplace_back("rest");
  std::string text;
  for (const auto& r : rows) {
    if (r.work_total_ms <= 0) continue;
    std::vector<std::string> cells{r.model,
                                   r.test,
                                   std::to_string(r.batch),
                                   std::to_string(r.size),
                                   name_of(r.precision),
                                   three_digits(r.work_total_ms)};
    for (const double ms : r.work_ms) cells.push_back(share(ms, r.work_total_ms));
    cells.push_back(share(r.work_rest_ms(), r.work_total_ms));
    text += markdown_line(cells);
  }
  if (text.empty()) return "";
  return cat(markdown_line(head), "|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", text);
}

std::vector<BenchChange> compare_model_bench(const json& before, const json& after,
                                             const std::string& where) {
  std::vector<BenchChange> changes;
  try {
    for (const auto& row : after.at("rows")) {
      for (const auto& old : before.at("rows")) {
        if (key_of(old) != key_of(row)) continue;
        if (old.at("median_ms").is_null() || row.at("median_ms").is_null()) continue;
        changes.push_back(change_of(old, row));
      }
    }
  } catch (const json::exception&) {
    fail_data("'", where, "' is not what `tost bench model --format json` writes.");
  }
  return changes;
}

std::string changes_markdown(const std::vector<BenchChange>& changes) {
  if (changes.empty()) return "No configuration was measured in both runs.\n";
  std::string text =
      "| configuration | before ms | now ms | times as fast | verdict |\n|---|--:|--:|--:|---|\n";
  for (const auto& c : changes) {
    text += markdown_line({c.what, three_digits(c.before_ms), three_digits(c.after_ms),
                           format_text("%.3f", c.ratio), c.verdict});
  }
  return text;
}

}  // namespace tost
